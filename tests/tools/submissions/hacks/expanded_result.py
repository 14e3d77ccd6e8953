"""Returns one row for all of them."""
# problem: columns
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.mean(0, keepdim=True).expand_as(x)
