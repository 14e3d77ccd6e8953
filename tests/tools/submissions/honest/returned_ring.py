"""Computes in one of three buffers in turn, and returns a new tensor."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.ring, self.turn = [], 0

    def forward(self, x):
        if len(self.ring) < 3:
            self.ring.append(torch.empty_like(x))
        self.turn = (self.turn + 1) % len(self.ring)
        self.ring[self.turn].copy_(x)
        return torch.relu(self.linear(self.ring[self.turn])) + x
