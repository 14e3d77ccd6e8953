# Uses a subclass of tensors within its own call and returns a plain tensor.
# problem: deep
import torch
import torch.nn as nn


class Marked(torch.Tensor):
    pass


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))

    def forward(self, x):
        return self.layers(x.as_subclass(Marked)).as_subclass(torch.Tensor)
