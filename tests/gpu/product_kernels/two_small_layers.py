"""Two layers of few features, and the logarithm of their sum of exponentials."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 20)
        self.second = nn.Linear(20, 5)

    def forward(self, x):
        return torch.logsumexp(self.second(torch.sigmoid(self.first(x))), dim=1)


def get_inputs():
    return [torch.randn(128, 10)]


def get_init_inputs():
    return []
