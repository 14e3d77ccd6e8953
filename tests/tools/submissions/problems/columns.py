"""The mean of each column, in every row."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.mean(0, keepdim=True).expand_as(x).contiguous()


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
