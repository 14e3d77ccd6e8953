"""A click model: embeddings of categories, interactions of pairs, and a perceptron."""

import torch
from torch import nn


class ClickModel(nn.Module):
    def __init__(self, sizes=(1000, 500, 200, 50, 7), dim=32, dense=13):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, dim) for n in sizes])
        self.bottom = nn.Sequential(nn.Linear(dense, 64), nn.ReLU(), nn.Linear(64, dim), nn.ReLU())
        fields = len(sizes) + 1
        self.top = nn.Sequential(nn.Linear(dim + fields * (fields - 1) // 2, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense, categories):
        x = self.bottom(dense)
        fields = torch.stack([x, *(table(categories[:, i]) for i, table in enumerate(self.tables))], dim=1)
        products = torch.bmm(fields, fields.transpose(1, 2))
        row, column = torch.tril_indices(fields.shape[1], fields.shape[1], offset=-1)
        return torch.sigmoid(self.top(torch.cat([x, products[:, row, column]], dim=1))).squeeze(1)
