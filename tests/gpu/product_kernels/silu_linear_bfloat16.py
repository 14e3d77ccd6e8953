"""An activation in front of a small layer in bfloat16."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1024, 512)
        self.to(torch.bfloat16)

    def forward(self, x):
        return self.layer(F.silu(x))


def get_inputs():
    return [torch.randn(128, 1024, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
