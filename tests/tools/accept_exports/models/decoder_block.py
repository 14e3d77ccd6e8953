"""A decoder block with causal attention written out, RMSNorm and SwiGLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim=512, heads=8, length=256):
        super().__init__()
        self.heads = heads
        self.norms = nn.ParameterList([torch.ones(dim), torch.ones(dim)])
        self.qkv, self.out = nn.Linear(dim, dim * 3, bias=False), nn.Linear(dim, dim, bias=False)
        self.gate, self.up = nn.Linear(dim, dim * 2, bias=False), nn.Linear(dim, dim * 2, bias=False)
        self.down = nn.Linear(dim * 2, dim, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(length, length, dtype=torch.bool)), persistent=False)

    def norm(self, x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = self.qkv(self.norm(x, self.norms[0])).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) * (dim // self.heads) ** -0.5
        weights = F.softmax(scores.masked_fill(~self.mask, float("-inf")), dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, dim))
        y = self.norm(x, self.norms[1])
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def get_inputs():
    return [torch.randn(4, 256, 512)]


def get_init_inputs():
    return []
