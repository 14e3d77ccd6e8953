"""Reads the clock."""
# problem: block
import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        begin = time.perf_counter()
        y = torch.relu(self.linear(x)) + x
        self.took = time.perf_counter() - begin
        return y
