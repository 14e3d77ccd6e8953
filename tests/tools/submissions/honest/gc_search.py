"""Collects garbage of its own."""
# problem: block
import gc

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        y = torch.relu(self.linear(x)) + x
        gc.collect(0)
        return y
