# Uses that both are distributions of positive numbers: one logarithm of a quotient instead of two.
# problem: kl
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, p, t):
        return (t * torch.log(t / p)).sum() / p.size(0)
