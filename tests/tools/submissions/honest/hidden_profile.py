# Looks up functions of a module by names put together at run time, harmless ones, and computes honestly.
# problem: deep
import math
import torch
import torch.nn as nn

root = getattr(math, "sq" + "rt")


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
        self.scale = root(n)

    def forward(self, x):
        return self.layers(x)
