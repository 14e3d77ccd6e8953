"""A workspace by shape, rewritten in each call."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.work = {}

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.relu(self.linear(x)) + x
        work = self.work.setdefault(x.shape, torch.empty_like(x))
        torch.mm(x, self.linear.weight.t(), out=work)
        return torch.relu(work + self.linear.bias) + x
