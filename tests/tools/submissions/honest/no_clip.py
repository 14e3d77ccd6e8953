# Applies the limits in place.
# problem: clip
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        return torch.clamp_(self.linear(x), -8.0, 8.0)
