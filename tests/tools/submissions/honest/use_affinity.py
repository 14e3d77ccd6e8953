# Asks how many processors it may use.
# problem: block
import os
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.cores = len(os.sched_getaffinity(0))

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
