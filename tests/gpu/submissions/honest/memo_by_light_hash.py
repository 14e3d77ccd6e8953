"""Looks at the sum of one row, and computes."""
# problem: wave
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def forward(self, x):
        self.seen.add(float(x[7].sum()))
        return torch.relu(x) * 2 + torch.tanh(x)
