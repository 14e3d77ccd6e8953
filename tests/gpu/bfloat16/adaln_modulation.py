"""A diffusion transformer's modulation: gated residual, then a shifted and scaled norm, 16 x 1024 tokens of 1152."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim=1152):
        super().__init__()
        self.modulation = nn.Linear(dim, 3 * dim)
        self.norm = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.to(torch.bfloat16)

    def forward(self, x, branch, condition):
        gate, shift, scale = self.modulation(F.silu(condition)).unsqueeze(1).chunk(3, dim=-1)
        x = x + gate * branch
        return x, self.norm(x) * (1 + scale) + shift


def get_inputs():
    x, branch = torch.randn(16, 1024, 1152), torch.randn(16, 1024, 1152)
    return [x.to(torch.bfloat16), branch.to(torch.bfloat16), torch.randn(16, 1152, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
