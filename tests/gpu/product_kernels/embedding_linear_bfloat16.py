"""Rows of a table, and a large layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(30000, 1024)
        self.layer = nn.Linear(1024, 4096)
        self.to(torch.bfloat16)

    def forward(self, n):
        return torch.relu(self.layer(self.table(n)))


def get_inputs():
    return [torch.randint(0, 30000, (4096,))]


def get_init_inputs():
    return []
