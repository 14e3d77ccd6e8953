"""Keeps its last answer and returns the new one."""
# problem: wave
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.pending = None

    def forward(self, x):
        self.pending = torch.relu(x) * 2 + torch.tanh(x)
        return self.pending
