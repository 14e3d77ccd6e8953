"""Takes more memory than there is for it."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.held = torch.empty(6 << 30, dtype=torch.uint8)

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
