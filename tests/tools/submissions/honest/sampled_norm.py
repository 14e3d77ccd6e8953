# Multiplies by the inverse of the norm, of all rows.
# problem: frobenius
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x * (1.0 / torch.linalg.vector_norm(x))
