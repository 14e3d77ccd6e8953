"""Loads a C library."""
# problem: block
import ctypes

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.pid = ctypes.CDLL(None).getpid()

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
