"""Measures itself with events."""
# problem: wave
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.times = []

    def forward(self, x):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        y = torch.relu(x) * 2 + torch.tanh(x)
        end.record()
        self.times = (self.times + [(begin, end)])[-8:]
        return y
