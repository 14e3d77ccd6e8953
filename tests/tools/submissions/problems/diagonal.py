"""A product with a diagonal matrix."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.diag(a) @ b


def get_inputs():
    return [torch.randn(256), torch.randn(256, 128)]


def get_init_inputs():
    return []
