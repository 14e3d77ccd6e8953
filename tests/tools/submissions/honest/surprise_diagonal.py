"""Scales rows in place of a product with a diagonal matrix."""
# problem: diagonal
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return a[:, None] * b
