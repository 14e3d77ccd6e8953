"""A layer and a norm over its batch."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1024, 512)
        self.norm = nn.BatchNorm1d(512)

    def forward(self, x):
        return torch.relu(self.norm(self.layer(x)))


def get_inputs():
    return [torch.randn(128, 1024)]


def get_init_inputs():
    return []
