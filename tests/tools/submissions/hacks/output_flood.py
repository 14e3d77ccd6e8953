"""Prints without end."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        for _ in range(8):
            print("a" * (1 << 20))
        return torch.relu(self.linear(x)) + x
