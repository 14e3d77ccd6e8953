"""Resolves nothing, and formats an address."""
# problem: block
import ipaddress

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.address = str(ipaddress.ip_address("127.0.0.1"))

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
