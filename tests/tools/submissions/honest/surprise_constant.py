"""Ones, which is what a softmax over one element is."""
# problem: constant
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, 1)

    def forward(self, x):
        return torch.ones(x.shape[0], 1, dtype=x.dtype)
