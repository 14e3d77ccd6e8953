"""ConvNeXt blocks: depthwise convolution, normalised over channels last, scaled residual."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.depthwise = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.expand, self.reduce = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.scale = nn.Parameter(torch.full((dim,), 0.1))

    def forward(self, x):
        y = self.depthwise(x).permute(0, 2, 3, 1)
        y = self.scale * self.reduce(F.gelu(self.expand(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)


class Model(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.blocks = nn.Sequential(Block(dim), Block(dim))

    def forward(self, x):
        return self.blocks(x)


def get_inputs():
    return [torch.randn(8, 96, 56, 56)]


def get_init_inputs():
    return []
