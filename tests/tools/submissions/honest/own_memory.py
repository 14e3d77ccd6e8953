"""Reads its own tensors' memory."""
# problem: block
import ctypes

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        y = (torch.relu(self.linear(x)) + x)
        assert len(ctypes.string_at(y.data_ptr(), 4)) == 4
        return y
