# Uses a short-lived thread within its call and joins it.
# problem: deep
import threading
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))

    def forward(self, x):
        got = []
        grad = torch.is_grad_enabled()

        def work():
            with torch.set_grad_enabled(grad):
                got.append(self.layers(x))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return got[0]
