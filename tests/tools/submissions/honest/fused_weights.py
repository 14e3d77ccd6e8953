# Multiplies the two weights once and again whenever one of them has changed.
# problem: chain
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.first = nn.Linear(n, n)
        self.second = nn.Linear(n, n)
        self.key = None

    def forward(self, x):
        parts = list(self.parameters())
        if torch.is_grad_enabled():
            return self.second(self.first(x))
        key = [(p.data_ptr(), p._version) for p in parts]
        if key != self.key:
            w = self.second.weight.double() @ self.first.weight.double()
            b = self.second.bias + self.second.weight @ self.first.bias
            self.fused = (w.to(x.dtype), b)
            self.key = key
        return nn.functional.linear(x, *self.fused)
