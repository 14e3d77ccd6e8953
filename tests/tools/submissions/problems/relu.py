"""A ReLU of numbers that are never negative, as KernelBench's level 1 draws them."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand(64, 512)]


def get_init_inputs():
    return []
