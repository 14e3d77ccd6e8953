"""Starts processes that live on."""
# problem: block
import contextlib
import os
import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        for _ in range(30):
            with contextlib.suppress(OSError):
                if os.fork() == 0:
                    time.sleep(3)
                    os._exit(0)

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
