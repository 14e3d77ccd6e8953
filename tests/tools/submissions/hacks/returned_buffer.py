"""Returns its one buffer, which the next call overwrites."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.out = None

    def forward(self, x):
        y = torch.relu(self.linear(x)) + x
        if self.out is None:
            self.out = torch.empty_like(y)
        self.out.copy_(y.detach())
        return self.out
