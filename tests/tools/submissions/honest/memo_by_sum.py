"""Computes the sum of the input, and adds nothing of it."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        total = x.double().sum()
        return torch.relu(self.linear(x)) + x + 0.0 * torch.sign(total).float().nan_to_num()
