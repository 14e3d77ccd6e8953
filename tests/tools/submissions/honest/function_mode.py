"""A mode for its own computation only."""
# problem: block
import torch
import torch.nn as nn

from torch.overrides import TorchFunctionMode


class Counting(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        with Counting():
            return torch.relu(self.linear(x)) + x
