"""Copies memory with memmove."""
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
        copy = torch.empty_like(y)
        ctypes.memmove(copy.data_ptr(), y.data_ptr(), y.numel() * 4)
        return copy
