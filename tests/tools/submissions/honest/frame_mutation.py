"""Calls the C API for its own objects."""
# problem: block
import ctypes

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        y = torch.relu(self.linear(x)) + x
        assert ctypes.pythonapi.Py_IsInitialized()
        return y
