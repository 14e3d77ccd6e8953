"""No nn.Module at all."""
# problem: softmax
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.exp(torch.log_softmax(x, -1))
