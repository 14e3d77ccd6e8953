# Warns at construction.
# problem: block
import warnings
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        warnings.warn("narrow layer", stacklevel=2)

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
