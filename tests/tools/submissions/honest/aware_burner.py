# Its thread sleeps until an event of its own call, counts calls, and sleeps again; the work is in the call.
# problem: deep
import threading
import torch
import torch.nn as nn

go = threading.Event()
count = [0]


def tally():
    while True:
        go.wait()
        go.clear()
        count[0] += 1


threading.Thread(target=tally, daemon=True).start()


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))

    def forward(self, x):
        y = self.layers(x)
        go.set()
        return y
