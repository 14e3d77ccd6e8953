"""Hashes all bits of its input, and computes."""
# problem: deep
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))

    def forward(self, x):
        self.seen = hash(x.detach().numpy().tobytes())
        return self.layers(x)
