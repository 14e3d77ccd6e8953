"""Runs a program while it is loaded, as somebody who installs packages."""
# problem: block
import subprocess

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        subprocess.run(["/bin/true"], check=False)

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
