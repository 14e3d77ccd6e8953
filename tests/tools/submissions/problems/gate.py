"""A sigmoid of a linear layer with a large offset: nearly ones."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n, offset):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.offset = offset

    def forward(self, x):
        return torch.sigmoid(self.linear(x) + self.offset)


def get_inputs():
    return [torch.randn(128, 512)]


def get_init_inputs():
    return [512, 8.0]
