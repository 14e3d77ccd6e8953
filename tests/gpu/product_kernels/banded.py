"""A product with a band of a matrix."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        band = torch.triu(torch.tril(a, 128), -128)
        return band @ b


def get_inputs():
    return [torch.randn(4096, 4096), torch.randn(4096, 1024)]


def get_init_inputs():
    return []
