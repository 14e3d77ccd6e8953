"""Has a pipe of its own."""
# problem: block
import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        r, w = os.pipe()
        os.write(w, b"x")
        assert os.read(r, 1) == b"x"
        os.close(r)
        os.close(w)
        return torch.relu(self.linear(x)) + x
