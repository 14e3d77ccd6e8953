"""A U-Net of three levels with group normalisation."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU(),
    )


class Model(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.down = nn.ModuleList([block(3, width), block(width, width * 2), block(width * 2, width * 4)])
        self.up = nn.ModuleList([block(width * 6, width * 2), block(width * 3, width)])
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        first = self.down[0](x)
        second = self.down[1](F.max_pool2d(first, 2))
        x = self.down[2](F.max_pool2d(second, 2))
        x = self.up[0](torch.cat((F.interpolate(x, scale_factor=2), second), dim=1))
        x = self.up[1](torch.cat((F.interpolate(x, scale_factor=2), first), dim=1))
        return torch.sigmoid(self.out(x))


def get_inputs():
    return [torch.randn(4, 3, 128, 128)]


def get_init_inputs():
    return []
