"""Does all of its work in its call."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.pending = []

    def forward(self, x):
        self.pending.append(self.linear(x))
        return torch.relu(self.pending.pop()) + x
