"""Computes in float64."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        y = x.double() @ self.linear.weight.double().t() + self.linear.bias.double()
        return torch.relu(y).float() + x
