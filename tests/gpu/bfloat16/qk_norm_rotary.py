"""Queries and keys of an attention: RMSNorm and rotary embedding, 16 and 4 heads of 128, on 4 x 1024 tokens."""

import torch
import torch.nn as nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class Model(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.width = width
        self.q_norm, self.k_norm = RMSNorm(width), RMSNorm(width)
        self.to(torch.bfloat16)

    def forward(self, q, k, cos, sin):
        q = self.q_norm(q.unflatten(-1, (-1, self.width))).transpose(1, 2)
        k = self.k_norm(k.unflatten(-1, (-1, self.width))).transpose(1, 2)
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def get_inputs():
    rates = 10000.0 ** (-torch.arange(0, 128, 2) / 128)
    angles = torch.outer(torch.arange(1024).float(), rates).repeat(1, 2)
    q = torch.randn(4, 1024, 16 * 128, dtype=torch.bfloat16)
    k = torch.randn(4, 1024, 4 * 128, dtype=torch.bfloat16)
    return [q, k, angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)]


def get_init_inputs():
    return []
