"""Writes a solution to its own /tmp, and runs it."""
# problem: block
import tempfile

import torch
import torch.nn as nn

with tempfile.NamedTemporaryFile("w+", suffix=".py") as file:
    file.write("def combine(y, x):\n    return y.relu() + x\n")
    file.seek(0)
    exec(compile(file.read(), "combine", "exec"))


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        return combine(self.linear(x), x)  # noqa: F821  of the file
