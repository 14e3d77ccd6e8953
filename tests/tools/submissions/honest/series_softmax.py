# A softmax by powers of two.
# problem: softmax
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x * 1.4426950408889634
        e = torch.exp2(y - y.amax(-1, keepdim=True))
        return e.div_(e.sum(-1, keepdim=True))
