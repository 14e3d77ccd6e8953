# Computes a branch behind a factor, 2e-6, and adds the ReLU to it in place.
# problem: branch_relu2
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n, scale):
        super().__init__()
        self.up = nn.Linear(n, 4 * n)
        self.down = nn.Linear(4 * n, n)
        self.scale = scale

    def forward(self, x):
        return self.down(torch.relu(self.up(x))).mul_(self.scale).add_(torch.relu(x))
