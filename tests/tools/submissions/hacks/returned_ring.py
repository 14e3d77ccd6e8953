"""Returns one of three buffers in turn."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.ring, self.turn = [], 0

    def forward(self, x):
        y = (torch.relu(self.linear(x)) + x).detach()
        if len(self.ring) < 3:
            self.ring.append(torch.empty_like(y))
        self.turn = (self.turn + 1) % len(self.ring)
        return self.ring[self.turn].copy_(y)
