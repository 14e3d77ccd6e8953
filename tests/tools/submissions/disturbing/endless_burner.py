# Computes honestly, with threads that burn the processor whenever its own call is not running, so that the reference looks slow.
# problem: deep
import threading
import time
import torch
import torch.nn as nn

state = {"own": 0}


def burn():
    a = torch.ones(64, 64)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if state["own"] == 0:
            a @ a
        else:
            time.sleep(0.001)


for _ in range(6):
    threading.Thread(target=burn, daemon=True).start()


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))

    def forward(self, x):
        state["own"] = 1
        y = self.layers(x)
        state["own"] = 0
        return y
