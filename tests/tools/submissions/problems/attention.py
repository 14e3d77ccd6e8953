"""Attention whose scores are small, so that its weights are nearly equal."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) / q.size(-1) ** 0.5, -1) @ v


def get_inputs():
    return [0.1 * torch.randn(256, 64), 0.1 * torch.randn(256, 64), torch.randn(256, 64)]


def get_init_inputs():
    return []
