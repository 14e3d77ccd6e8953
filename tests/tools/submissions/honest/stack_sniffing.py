"""Has functions with suspicious names, and looks at nobody."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def time_calls(self, x):
        return self.linear(x)

    def forward(self, x):
        return torch.relu(self.time_calls(x)) + x
