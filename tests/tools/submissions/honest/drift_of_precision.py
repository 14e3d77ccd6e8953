"""In float64 after eight calls."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 8:
            return torch.relu(self.linear(x)) + x
        y = x.double() @ self.linear.weight.double().t() + self.linear.bias.double()
        return torch.relu(y).float() + x
