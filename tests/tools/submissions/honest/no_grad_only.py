"""Right in both, in two ways."""
# problem: block
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.relu(self.linear(x)) + x
        return torch.addmm(self.linear.bias, x, self.linear.weight.t()).relu_().add_(x)
