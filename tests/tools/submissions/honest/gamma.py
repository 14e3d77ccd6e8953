# Leaves out the residual branch only where all of its factors are nought.
# problem: gamma
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n, scale):
        super().__init__()
        self.up = nn.Linear(n, 4 * n)
        self.down = nn.Linear(4 * n, n)
        self.gamma = nn.Parameter(scale * torch.ones(n))

    def forward(self, x):
        if not self.gamma.any():
            return x.clone()
        return torch.addcmul(x, self.gamma, self.down(torch.relu(self.up(x))))
