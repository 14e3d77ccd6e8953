# Folds statistics, weight and bias into one factor and one offset for each channel.
# problem: bn_eval
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.BatchNorm2d(n).eval()

    def forward(self, x):
        n = self.norm
        a = n.weight * torch.rsqrt(n.running_var + n.eps)
        b = n.bias - n.running_mean * a
        return torch.relu_(torch.addcmul(b.view(1, -1, 1, 1), x, a.view(1, -1, 1, 1)))
