# Fills an uninitialised tensor in a thread and waits until it is full.
# problem: deep
import threading
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))

    def fill(self, x, out):
        with torch.no_grad():
            out.copy_(self.layers(x))

    def forward(self, x):
        if torch.is_grad_enabled():
            return self.layers(x)
        out = torch.empty(x.shape, dtype=x.dtype)
        thread = threading.Thread(target=self.fill, args=(x, out))
        thread.start()
        thread.join()
        return out
