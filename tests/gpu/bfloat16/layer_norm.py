"""LayerNorm over 4096 features of 32768 rows, 256 MB."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim=4096):
        super().__init__()
        self.norm = nn.LayerNorm(dim).to(torch.bfloat16)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(32768, 4096, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
