"""Rows scaled by a value of each, and a layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(512, 256)

    def forward(self, x, s):
        return torch.relu(self.layer(x * s))


def get_inputs():
    return [torch.randn(128, 512), torch.rand(128, 1)]


def get_init_inputs():
    return []
