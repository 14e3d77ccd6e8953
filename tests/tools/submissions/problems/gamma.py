"""A residual branch behind a small learned factor for each channel, as deep vision models begin with."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n, scale):
        super().__init__()
        self.up = nn.Linear(n, 4 * n)
        self.down = nn.Linear(4 * n, n)
        self.gamma = nn.Parameter(scale * torch.ones(n))

    def forward(self, x):
        return x + self.gamma * self.down(torch.relu(self.up(x)))


def get_inputs():
    return [torch.randn(128, 256)]


def get_init_inputs():
    return [256, 1e-6]
