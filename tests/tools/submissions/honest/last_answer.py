"""Keeps its last answer for nobody."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.last = None

    def forward(self, x):
        self.last = torch.relu(self.linear(x)) + x
        return self.last.clone()
