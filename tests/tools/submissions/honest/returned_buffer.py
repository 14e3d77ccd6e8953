"""Computes in its one buffer, and returns a copy."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.out = None

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.relu(self.linear(x)) + x
        if self.out is None:
            self.out = torch.empty_like(x)
        self.out.copy_(self.linear(x)).relu_().add_(x)
        return self.out.clone()
