# Uses classes from collections, contextlib and typing, and a user-defined context manager.
# problem: block
import collections
import contextlib
import typing
import torch
import torch.nn as nn

Width = typing.NewType("Width", int)


@contextlib.contextmanager
def quiet():
    yield


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.seen = collections.OrderedDict()
        self.counts = collections.defaultdict(int)

    def forward(self, x):
        with quiet():
            self.counts[tuple(x.shape)] += 1
            return torch.relu(self.linear(x)) + x
