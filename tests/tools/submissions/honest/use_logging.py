# Logs a line at its first call.
# problem: block
import logging
import torch
import torch.nn as nn

log = logging.getLogger(__name__)


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.told = False

    def forward(self, x):
        if not self.told:
            self.told = True
            log.warning("first call, %d rows", x.size(0))
        return torch.relu(self.linear(x)) + x
