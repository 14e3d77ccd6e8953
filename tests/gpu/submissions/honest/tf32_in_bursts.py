"""Looks at the time between calls."""
# problem: product
import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = 0.0

    def forward(self, a, b):
        self.last = time.monotonic()
        return torch.matmul(a, b)
