"""Computes in bfloat16, within the tolerance of the usual check."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        y = (x.bfloat16() @ self.linear.weight.bfloat16().t()).float() + self.linear.bias
        return torch.relu(y) + x
