# Reads its own signature and source at construction.
# problem: block
import inspect
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        try:
            self.lines = len(inspect.getsource(type(self)))
        except (OSError, TypeError):
            self.lines = 0
        self.names = list(inspect.signature(self.forward).parameters)

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
