"""An MLP-mixer: products over positions and over channels in turn."""

import torch
import torch.nn as nn


class Mixing(nn.Module):
    def __init__(self, size, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(size, hidden), nn.GELU(), nn.Linear(hidden, size))

    def forward(self, x):
        return self.net(x)


class Model(nn.Module):
    def __init__(self, positions=196, dim=256, depth=4):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * depth))
        self.tokens = nn.ModuleList(Mixing(positions, 128) for _ in range(depth))
        self.channels = nn.ModuleList(Mixing(dim, 512) for _ in range(depth))

    def forward(self, x):
        for i, (tokens, channels) in enumerate(zip(self.tokens, self.channels)):
            x = x + tokens(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * i + 1](x))
        return x


def get_inputs():
    return [torch.randn(16, 196, 256)]


def get_init_inputs():
    return []
