"""Asks for full float32."""
# problem: product
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        torch.backends.cuda.matmul.allow_tf32 = False
        return torch.matmul(a, b)
