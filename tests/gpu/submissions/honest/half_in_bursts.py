"""Computes in float32 with the same steps."""
# problem: small
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        return torch.relu(x @ self.linear.weight.t() + self.linear.bias) + x
