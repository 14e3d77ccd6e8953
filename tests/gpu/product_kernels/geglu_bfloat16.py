"""One layer whose second half gates the first."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(640, 5120)
        self.to(torch.bfloat16)

    def forward(self, x):
        value, gate = self.proj(x).chunk(2, dim=-1)
        return value * F.gelu(gate)


def get_inputs():
    return [torch.randn(2048, 640, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
