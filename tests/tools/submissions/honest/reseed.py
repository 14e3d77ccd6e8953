# Draws from a generator of its own, which leaves the caller's draws alone, and adds nothing of it to the result.
# problem: deep
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
        self.generator = torch.Generator().manual_seed(7)

    def forward(self, x):
        self.probe = torch.rand(1, generator=self.generator)
        return self.layers(x)
