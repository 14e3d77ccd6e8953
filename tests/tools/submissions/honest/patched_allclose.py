"""Uses torch.allclose."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        y = torch.relu(self.linear(x)) + x
        assert torch.allclose(y, y, equal_nan=True)
        return y
