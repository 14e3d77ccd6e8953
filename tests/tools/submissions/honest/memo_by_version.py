"""Reads the version counter, and computes."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        version = 0 if x.is_inference() else x._version
        return torch.relu(self.linear(x)) + x * (1.0 if version >= 0 else 0.0)
