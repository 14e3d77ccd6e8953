"""The modulation of a diffusion transformer: an activation in front of a layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1024, 512)

    def forward(self, x):
        return self.layer(F.silu(x))


def get_inputs():
    return [torch.randn(128, 1024)]


def get_init_inputs():
    return []
