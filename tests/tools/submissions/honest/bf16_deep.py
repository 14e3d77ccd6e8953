# Computes in float32 throughout, with a cache of views of the weights.
# problem: deep
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
        self.parts = None

    def forward(self, x):
        if self.parts is None:
            self.parts = [(l.weight, l.bias) for l in self.layers if isinstance(l, nn.Linear)]
        y = x
        for i, (w, b) in enumerate(self.parts):
            y = nn.functional.linear(y, w, b)
            if i < 2:
                y = y.relu_()
        return y
