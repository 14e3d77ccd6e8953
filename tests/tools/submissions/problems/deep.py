"""Three linear layers, which take milliseconds."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))

    def forward(self, x):
        return self.layers(x)


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return [512]
