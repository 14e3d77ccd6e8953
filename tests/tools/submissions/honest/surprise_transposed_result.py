"""A result whose strides are those of its transposition."""
# problem: columns
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.mean(0, keepdim=True).expand_as(x).t().contiguous().t()
