"""Rows of a table, and a layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(30000, 512)
        self.layer = nn.Linear(512, 256)

    def forward(self, n):
        return torch.relu(self.layer(self.table(n)))


def get_inputs():
    return [torch.randint(0, 30000, (128,))]


def get_init_inputs():
    return []
