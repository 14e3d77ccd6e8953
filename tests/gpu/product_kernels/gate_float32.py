"""A small gated layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(512, 512)

    def forward(self, x):
        value, gate = self.proj(x).chunk(2, dim=-1)
        return value * torch.sigmoid(gate)


def get_inputs():
    return [torch.randn(128, 512)]


def get_init_inputs():
    return []
