"""Two linear layers with nothing between them."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.first = nn.Linear(n, n)
        self.second = nn.Linear(n, n)

    def forward(self, x):
        return self.second(self.first(x))


def get_inputs():
    return [torch.randn(128, 512)]


def get_init_inputs():
    return [512]
