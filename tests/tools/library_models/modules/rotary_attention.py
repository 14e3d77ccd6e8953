"""Causal attention with rotary embeddings in real numbers, as in GPT-NeoX and Llama."""

import torch
import torch.nn.functional as F
from torch import nn


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class RotaryAttention(nn.Module):
    def __init__(self, dim=256, heads=4, base=10000.0):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        width = dim // heads
        self.register_buffer("inverse", 1.0 / base ** (torch.arange(0, width, 2).float() / width), persistent=False)

    def rotate(self, x, cos, sin):
        return (x * cos + rotate_half(x) * sin).to(x.dtype)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        angles = torch.outer(torch.arange(length, device=x.device).float(), self.inverse.float())
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        y = F.scaled_dot_product_attention(self.rotate(q, cos, sin), self.rotate(k, cos, sin), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, dim))
