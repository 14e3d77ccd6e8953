"""Has a function that could trace."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def trace(self, frame, event, argument):
        return None

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
