# Copies into an empty tensor by an operator of the same namespace.
# problem: copy
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.ops.aten.copy_(torch.empty_like(x), x)
