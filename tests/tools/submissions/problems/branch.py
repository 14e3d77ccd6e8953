"""One of two ways, by the sign of the mean; the numbers that are drawn always go one way."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        if x.mean() > 0:
            return x * 2
        return torch.exp(x) - 1


def get_inputs():
    return [torch.rand(64, 2048)]


def get_init_inputs():
    return []
