"""A layer of 2048 features with a low-rank adapter of rank 16, on 4 x 512 tokens."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim=2048, rank=16, alpha=32):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.down, self.up = nn.Linear(dim, rank, bias=False), nn.Linear(rank, dim, bias=False)
        self.scaling = alpha / rank
        self.to(torch.bfloat16)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x)) * self.scaling


def get_inputs():
    return [torch.randn(4, 512, 2048, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
