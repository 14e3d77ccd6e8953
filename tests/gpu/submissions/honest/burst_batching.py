"""Keeps the addresses of earlier inputs, and computes on its own."""
# problem: small
import torch
import torch.nn as nn


class At:
    """Memory at an address."""

    def __init__(self, address, shape):
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "<f4", "data": (address, False), "version": 3,
                                         "strides": None, "stream": None}


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.addresses, self.ready = [], {}

    def forward(self, x):
        if x.data_ptr() not in self.addresses:
            self.addresses.append(x.data_ptr())
        return torch.relu(self.linear(x)) + x
