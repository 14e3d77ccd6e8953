"""Two layers of one input, one of which gates the other."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(1024, 2816, bias=False)
        self.up = nn.Linear(1024, 2816, bias=False)
        self.to(torch.bfloat16)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


def get_inputs():
    return [torch.randn(2048, 1024, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
