# The same batch norm through the function, with all its parts and its running statistics.
# problem: norm
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.BatchNorm1d(n)

    def forward(self, x):
        m = self.norm
        if self.training:
            m.num_batches_tracked.add_(1)
        return torch.tanh(nn.functional.batch_norm(x, m.running_mean, m.running_var, m.weight, m.bias, self.training, m.momentum, m.eps))
