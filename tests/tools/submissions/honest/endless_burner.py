# Starts threads at import that sleep until they are given work, gives each a part of the rows, and waits for all.
# problem: deep
import queue
import threading
import torch
import torch.nn as nn

jobs = queue.SimpleQueue()


def serve():
    while True:
        f, part, grad, got = jobs.get()
        with torch.set_grad_enabled(grad):
            got.put(f(part))


for _ in range(2):
    threading.Thread(target=serve, daemon=True).start()


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))

    def forward(self, x):
        boxes = []
        for part in x.chunk(2):
            box = queue.SimpleQueue()
            boxes.append(box)
            jobs.put((self.layers, part, torch.is_grad_enabled(), box))
        return torch.cat([box.get() for box in boxes])
