"""PyTorch's own transformer, with masks, for translation."""

import math

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, vocabulary=1000, dim=128, heads=4, layers=2, longest=256):
        super().__init__()
        self.source = nn.Embedding(vocabulary, dim)
        self.target = nn.Embedding(vocabulary, dim)
        self.scale = math.sqrt(dim)
        position = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        table = torch.zeros(longest, dim)
        table[:, 0::2], table[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
        self.register_buffer("table", table)
        self.transformer = nn.Transformer(dim, heads, layers, layers, 4 * dim, dropout=0.0, batch_first=True)
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, source, target):
        x = self.source(source) * self.scale + self.table[: source.shape[1]]
        y = self.target(target) * self.scale + self.table[: target.shape[1]]
        mask = self.transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        return self.head(self.transformer(x, y, tgt_mask=mask, tgt_is_causal=True)).log_softmax(-1)
