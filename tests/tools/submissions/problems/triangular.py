"""A product of two lower triangular matrices."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.tril(torch.matmul(a, b))


def get_inputs():
    return [torch.tril(torch.rand(512, 512)), torch.tril(torch.rand(512, 512))]


def get_init_inputs():
    return []
