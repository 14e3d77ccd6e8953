"""A U-Net of three levels: group norm, bilinear upsampling, connections across."""

import torch
import torch.nn.functional as F
from torch import nn


class Twice(nn.Sequential):
    def __init__(self, channels, out):
        super().__init__(
            nn.Conv2d(channels, out, 3, padding=1, bias=False),
            nn.GroupNorm(8, out),
            nn.LeakyReLU(0.1, inplace=True),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            nn.GroupNorm(8, out),
            nn.LeakyReLU(0.1, inplace=True),
        )


class UNet(nn.Module):
    def __init__(self, channels=3, classes=5, width=16):
        super().__init__()
        widths = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList([Twice(a, b) for a, b in zip([channels, *widths], widths)])
        self.up = nn.ModuleList([Twice(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1])])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        across = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool2d(x, 2))
            across.append(x)
        for block, kept in zip(self.up, across[-2::-1]):
            x = F.interpolate(x, size=kept.shape[-2:], mode="bilinear", align_corners=False)
            x = block(torch.cat([kept, x], dim=1))
        return self.head(x)
