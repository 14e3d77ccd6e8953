"""Causal attention of 16 query heads and 4 key heads with its projections, width 1024, on 4 x 512 tokens."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim=1024, heads=16, groups=4):
        super().__init__()
        self.width = dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, groups * self.width, bias=False)
        self.v = nn.Linear(dim, groups * self.width, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.to(torch.bfloat16)

    def heads(self, x):
        return x.unflatten(-1, (-1, self.width)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(2))


def get_inputs():
    return [torch.randn(4, 512, 1024, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
