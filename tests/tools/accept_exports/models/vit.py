"""A vision transformer: patches by a convolution, a class token, six encoder layers."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim=512, depth=6, heads=8, patch=16, size=224, classes=100):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, dim))
        self.position = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, dim * 4, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), dim=1) + self.position
        return self.head(self.encoder(x)[:, 0])


def get_inputs():
    return [torch.randn(4, 3, 224, 224)]


def get_init_inputs():
    return []
