"""Asks how many processors there are."""
# problem: block
import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.count = os.cpu_count()

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
