"""The end of a block: dropout, residual, layer norm; both the sum and the norm are used."""

import torch
from torch import nn


class ResidualNorm(nn.Module):
    def __init__(self, dim=512):
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x, residual):
        residual = residual + self.dropout(x)
        return self.norm(residual), residual
