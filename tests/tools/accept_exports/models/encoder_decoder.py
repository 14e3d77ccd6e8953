"""A transformer with encoder and decoder, causal in the decoder."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim=256, heads=8, layers=2, length=128):
        super().__init__()
        self.transformer = nn.Transformer(dim, heads, layers, layers, dim * 4, dropout=0.0, batch_first=True)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))
        self.out = nn.Linear(dim, dim)

    def forward(self, source, target):
        return self.out(self.transformer(source, target, tgt_mask=self.mask))


def get_inputs():
    return [torch.randn(8, 192, 256), torch.randn(8, 128, 256)]


def get_init_inputs():
    return []
