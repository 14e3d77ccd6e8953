"""Uses statistics.mean."""
# problem: block
import statistics

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        assert statistics.mean([1, 1]) == 1
        return torch.relu(self.linear(x)) + x
