"""Rows divided by their norms, which are kept away from nought."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x / x.norm(dim=-1, keepdim=True).clamp_min(1e-6)


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return []
