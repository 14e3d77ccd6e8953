"""Looks at every 997th element to choose between two right ways."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        if float(x.flatten()[::997].abs().max()) < 100.0:
            return torch.relu(self.linear(x)) + x
        return torch.relu(x @ self.linear.weight.t() + self.linear.bias) + x
