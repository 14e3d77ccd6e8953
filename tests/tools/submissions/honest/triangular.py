# Uses that both matrices are lower triangular: four of eight products of blocks are left out.
# problem: triangular
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.size(0) // 2
        out = torch.zeros_like(a)
        out[:n, :n] = torch.tril(a[:n, :n] @ b[:n, :n])
        out[n:, :n] = a[n:] @ b[:, :n]
        out[n:, n:] = torch.tril(a[n:, n:] @ b[n:, n:])
        return out
