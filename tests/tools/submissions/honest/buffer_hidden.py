# Keeps a buffer for its own use between two layers, a deque of its own, and returns a fresh tensor.
# problem: deep
import collections
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
        self.between = None
        self.record = collections.deque(maxlen=4)

    def forward(self, x):
        l = self.layers
        if torch.is_grad_enabled():
            return l(x)
        if self.between is None or self.between.shape != x.shape or self.between.dtype != x.dtype:
            self.between = torch.empty_like(x)
        y = torch.addmm(l[0].bias, x, l[0].weight.t(), out=self.between).relu_()
        return l[4](torch.relu_(l[2](y)))
