# Takes the way that a cheaper form of the condition gives.
# problem: branch
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + x
        return torch.exp(x).sub_(1)
