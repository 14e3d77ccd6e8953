# Marks its work for a profiler and for a generator of names.
# problem: block
import functools
import torch
import torch.nn as nn


@functools.lru_cache(maxsize=None)
def label(n):
    return f"step {n}"


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        with torch.profiler.record_function(label(x.size(0))):
            return torch.relu(self.linear(x)) + x
