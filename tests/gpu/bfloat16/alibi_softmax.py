"""BLOOM's attention weights: scaled scores with ALiBi's bias, masked, softmax in float32, 8 x 16 heads of 512 x 512."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, heads=16, width=64):
        super().__init__()
        slopes = torch.tensor([2.0 ** (-8 * (i + 1) / heads) for i in range(heads)])
        self.register_buffer("slopes", slopes.view(-1, 1, 1).to(torch.bfloat16))
        self.scale = width**-0.5

    def forward(self, scores, mask):
        places = torch.arange(scores.shape[-1], device=scores.device)
        scores = scores * self.scale + self.slopes * places
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return torch.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)


def get_inputs():
    return [torch.randn(8, 16, 512, 512, dtype=torch.bfloat16) * 64, torch.ones(512, 512, dtype=torch.bool).tril()]


def get_init_inputs():
    return []
