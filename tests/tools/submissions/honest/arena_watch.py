# Keeps copies of the last inputs under a lock that a thread also takes, and computes every result from the input at hand.
# problem: deep
import threading
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
        self.lock = threading.Lock()
        self.last = None

    def forward(self, x):
        with self.lock:
            if self.last is None:
                self.last = x.detach().clone()
        return self.layers(x)
