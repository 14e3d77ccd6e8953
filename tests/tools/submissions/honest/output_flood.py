"""Prints a little."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        print("a" * 1000)
        return torch.relu(self.linear(x)) + x
