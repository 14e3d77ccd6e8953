"""What an import cannot record, as people write it."""

import torch
import torch.nn as nn


class WithScript(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.script(nn.Linear(8, 8))

    def forward(self, x):
        return self.inner(x)


class Twice(nn.Module):
    def forward(self, x):
        return x * 2


class PerRow(nn.Module):
    def forward(self, x):
        return torch.vmap(torch.dot)(x, x)


class Ragged(nn.Module):
    def forward(self, x):
        rows = torch.nested.nested_tensor([x, x[:2]])
        return torch.nested.to_padded_tensor(rows, 0.0)


def matrix():
    return torch.randn(4, 8)


def ragged_rows():
    return torch.nested.nested_tensor([torch.randn(3, 4), torch.randn(5, 4)])


def jagged_rows():
    return torch.nested.nested_tensor([torch.randn(3, 4), torch.randn(5, 4)], layout=torch.jagged)
