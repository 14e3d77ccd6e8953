"""Says that it computes no gradients."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        if torch.is_grad_enabled():
            raise RuntimeError("no gradients are computed: call it under torch.no_grad()")
        return torch.addmm(self.linear.bias, x, self.linear.weight.t()).relu_().add_(x)
