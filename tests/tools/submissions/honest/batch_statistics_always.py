"""The batch norm's own function."""
# problem: norm
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.BatchNorm1d(n)

    def forward(self, x):
        return torch.tanh(nn.functional.batch_norm(x, self.norm.running_mean, self.norm.running_var, self.norm.weight,
                                                   self.norm.bias, self.training, 0.1, self.norm.eps))
