"""The feed-forward of a diffusion model's transformer: one projection for value and gate, 2 x 1024 tokens of 640."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim=640):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.proj, self.out = nn.Linear(dim, 8 * dim), nn.Linear(4 * dim, dim)
        self.to(torch.bfloat16)

    def forward(self, x):
        value, gate = self.proj(self.norm(x)).chunk(2, dim=-1)
        return x + self.out(value * F.gelu(gate))


def get_inputs():
    return [torch.randn(2, 1024, 640, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
