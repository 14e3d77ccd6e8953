# Returns its result transposed in memory: the same numbers in the same places, with other strides.
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        t = x.t().contiguous()
        y = torch.relu(self.linear.weight @ t + self.linear.bias.unsqueeze(1)) + t
        return y.t()
