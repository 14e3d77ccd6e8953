"""Keeps a work space by the input's address."""
# problem: wave
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.spaces = {}

    def forward(self, x):
        key = x.data_ptr()
        if key not in self.spaces:
            self.spaces[key] = torch.empty_like(x)
        torch.tanh(x, out=self.spaces[key]) if not torch.is_grad_enabled() else self.spaces[key].copy_(torch.tanh(x))
        return torch.relu(x) * 2 + self.spaces[key]
