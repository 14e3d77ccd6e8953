"""The start of a text encoder: tokens, positions and segments, then a norm."""

import torch
from torch import nn


class Embeddings(nn.Module):
    def __init__(self, vocabulary=5000, dim=256, longest=512, segments=2):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, dim, padding_idx=0)
        self.positions = nn.Embedding(longest, dim)
        self.segments = nn.Embedding(segments, dim)
        self.norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(0.1)

    def forward(self, ids, segments):
        positions = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)
        x = self.tokens(ids) * self.tokens.embedding_dim**0.5 + self.positions(positions) + self.segments(segments)
        return self.dropout(self.norm(x))
