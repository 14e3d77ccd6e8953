"""The start of a text encoder: embeddings of 8192 tokens and of places, then LayerNorm, 32 x 512 tokens of 1024."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, vocabulary=8192, longest=512, dim=1024):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, dim), nn.Embedding(longest, dim)
        self.norm = nn.LayerNorm(dim)
        self.to(torch.bfloat16)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.norm(self.tokens(ids) + self.places(places))


def get_inputs():
    return [torch.randint(0, 8192, (32, 512))]


def get_init_inputs():
    return []
