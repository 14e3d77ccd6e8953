"""Computes in float64 and returns float32."""
# problem: mean
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.double().mean(-1).float()
