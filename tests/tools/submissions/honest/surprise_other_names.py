"""Parameters by other names, made in the same order."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        made = nn.Linear(n, n)
        self.w, self.b = made.weight, made.bias

    def forward(self, x):
        return torch.relu(torch.addmm(self.b, x, self.w.t())) + x
