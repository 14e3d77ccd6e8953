# Adds the residual branch in place to a copy of the input.
# problem: layerscale6
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n, scale):
        super().__init__()
        self.up = nn.Linear(n, 4 * n)
        self.down = nn.Linear(4 * n, n)
        self.scale = scale

    def forward(self, x):
        return x.clone().add_(self.down(torch.relu_(self.up(x))), alpha=self.scale)
