"""Finds a program, and does not run it."""
# problem: block
import shutil

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.found = shutil.which("true")

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
