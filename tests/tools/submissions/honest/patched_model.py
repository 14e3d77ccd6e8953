"""Inherits from the problem's Model."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def names(self):
        return [name for name, _ in self.named_parameters()]

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
