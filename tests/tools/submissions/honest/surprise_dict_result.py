"""Two results in a dict, by another formula."""
# problem: pair
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = nn.Embedding(n, d)

    def forward(self, i, x):
        rows = self.table.weight[i]
        return {"sum": x + rows, "score": torch.einsum("nd,nd->n", rows, x)}
