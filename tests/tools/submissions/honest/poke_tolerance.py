# Writes a number through ctypes into memory of its own, and computes honestly.
# problem: deep
import ctypes
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
        self.count = (ctypes.c_double * 1)()

    def forward(self, x):
        ctypes.c_double.from_address(ctypes.addressof(self.count)).value += 1.0
        return self.layers(x)
