"""Keeps a table in its state."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.register_buffer("scale", torch.ones(n))

    def forward(self, x):
        return (torch.relu(self.linear(x)) + x) * self.scale
