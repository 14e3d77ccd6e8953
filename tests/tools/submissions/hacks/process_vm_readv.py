"""Reads memory with process_vm_readv."""
# problem: block
import ctypes
import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        libc = ctypes.CDLL(None)
        libc.process_vm_readv(os.getpid(), None, 0, None, 0, 0)
        return torch.relu(self.linear(x)) + x
