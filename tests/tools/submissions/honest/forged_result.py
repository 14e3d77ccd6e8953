"""Writes to standard error."""
# problem: block
import sys

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        print("called", file=sys.stderr)
        return torch.relu(self.linear(x)) + x
