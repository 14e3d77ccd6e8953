"""A product of two matrices that every draw makes the same."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.softmax(a @ b, -1)


def get_inputs():
    a = torch.arange(256 * 256).view(256, 256) % 7 / 7.0
    b = torch.arange(256 * 256).view(256, 256) % 11 / 11.0
    return [a, b]


def get_init_inputs():
    return []
