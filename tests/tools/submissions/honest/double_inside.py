# Computes in float64 inside and rounds at the end: slower, and nearer to the truth than the reference.
# problem: layernorm
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        n = self.norm
        return nn.functional.layer_norm(x.double(), x.shape[-1:], n.weight.double(), n.bias.double(), n.eps).to(x.dtype)
