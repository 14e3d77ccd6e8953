# A batch norm with weight and bias that never updates its running statistics, so that a later eval() is wrong.
# problem: norm
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.BatchNorm1d(n)

    def forward(self, x):
        m = self.norm
        return torch.tanh_(nn.functional.batch_norm(x, None, None, m.weight, m.bias, True, 0.0, m.eps))
