# Has a thread that wakes up after each call, does nothing worth speaking of, and sleeps; the work is in the call.
# problem: deep
import threading
import time
import torch
import torch.nn as nn

go = threading.Event()
stamps = []


def note():
    while True:
        go.wait()
        go.clear()
        stamps[:] = stamps[-7:] + [time.monotonic()]


threading.Thread(target=note, daemon=True).start()


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))

    def forward(self, x):
        y = self.layers(x)
        go.set()
        return y
