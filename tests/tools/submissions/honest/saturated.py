# Fills a tensor of ones by the sigmoid of the linear layer, with the offset folded into a bias at each call.
# problem: gate
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n, offset):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.offset = offset

    @torch.no_grad()
    def forward(self, x):
        out = torch.ones_like(x)
        torch.addmm(self.linear.bias + self.offset, x, self.linear.weight.t(), out=out)
        return out.sigmoid_()
