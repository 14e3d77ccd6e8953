"""Keeps the weights until they change."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.kept = None

    def forward(self, x):
        versions = self.linear.weight._version, self.linear.weight.data_ptr()
        if self.kept is None or self.kept[0] != versions:
            self.kept = versions, self.linear.weight.detach().t().contiguous()
        weight = self.linear.weight.t() if torch.is_grad_enabled() else self.kept[1]
        return torch.relu(x @ weight + self.linear.bias) + x
