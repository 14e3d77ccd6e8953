"""Returns all rows."""
# problem: columns
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.mean(0, keepdim=True).repeat(x.shape[0], 1)
