"""A linear layer whose launches take longer than its work."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        return torch.relu(self.linear(x)) + x


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return [128]
