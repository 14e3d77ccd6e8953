"""The first half of GPT-2's MLP, a layer with bias and the tanh form of GELU, 1024 to 4096 on 4 x 1024 tokens."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim=1024):
        super().__init__()
        self.layer = nn.Linear(dim, 4 * dim).to(torch.bfloat16)

    def forward(self, x):
        return F.gelu(self.layer(x), approximate="tanh")


def get_inputs():
    return [torch.randn(4, 1024, 1024, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
