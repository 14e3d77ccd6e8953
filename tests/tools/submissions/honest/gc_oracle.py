# Collects garbage once at construction and keeps a bounded list of result shapes, which it never reads for results.
# problem: deep
import gc
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
        self.known = {}
        gc.collect()

    def forward(self, x):
        self.known[tuple(x.shape)] = self.known.get(tuple(x.shape), 0) + 1
        return self.layers(x)
