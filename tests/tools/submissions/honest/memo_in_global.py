"""Counts its calls in a global."""
# problem: block
import torch
import torch.nn as nn

calls = [0]


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        calls[0] += 1
        return torch.relu(self.linear(x)) + x
