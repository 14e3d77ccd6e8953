# Uses vmap over rows.
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        return torch.func.vmap(lambda r: torch.relu(torch.mv(self.linear.weight, r) + self.linear.bias) + r)(x)
