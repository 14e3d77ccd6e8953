"""A diffusion model's GroupNorm, scaled and shifted by the step's embedding, and SiLU, on 8 x 320 x 64 x 64."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, channels=320, embedding=1280, groups=32):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        self.step = nn.Linear(embedding, 2 * channels)
        self.to(torch.bfloat16)

    def forward(self, x, embedding):
        scale, shift = self.step(F.silu(embedding))[:, :, None, None].chunk(2, dim=1)
        return F.silu(self.norm(x) * (1 + scale) + shift)


def get_inputs():
    return [torch.randn(8, 320, 64, 64, dtype=torch.bfloat16), torch.randn(8, 1280, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
