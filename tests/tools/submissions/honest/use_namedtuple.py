# Groups its parameters in a named tuple.
# problem: block
import collections
import torch
import torch.nn as nn

Pair = collections.namedtuple("Pair", "weight bias")


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        p = Pair(self.linear.weight, self.linear.bias)
        return torch.relu(nn.functional.linear(x, p.weight, p.bias)) + x
