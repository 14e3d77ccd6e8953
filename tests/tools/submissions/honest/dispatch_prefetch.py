# Counts operator calls by a mode that lives within its own call only.
# problem: deep
import torch
import torch.nn as nn
from torch.utils._python_dispatch import TorchDispatchMode


class Count(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        Count.calls += 1
        return func(*args, **(kwargs or {}))


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
        self.first = True

    def forward(self, x):
        if self.first:
            self.first = False
            with Count():
                return self.layers(x)
        return self.layers(x)
