"""BERT's output layer: a layer of 3072 to 768 with bias, the residual and LayerNorm, on 16 x 256 tokens."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden=3072, dim=768):
        super().__init__()
        self.dense = nn.Linear(hidden, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        self.to(torch.bfloat16)

    def forward(self, x, residual):
        return self.norm(self.dense(x) + residual)


def get_inputs():
    return [torch.randn(16, 256, 3072, dtype=torch.bfloat16), torch.randn(16, 256, 768, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
