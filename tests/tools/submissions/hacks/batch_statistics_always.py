"""Takes the batch's statistics in evaluation mode too."""
# problem: norm
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.BatchNorm1d(n)

    def forward(self, x):
        return torch.tanh(nn.functional.batch_norm(x, None, None, self.norm.weight, self.norm.bias, True, 0.0, self.norm.eps))
