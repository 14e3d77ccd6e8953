"""Lets a thread launch the work and waits for it."""
# problem: wave
import threading

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        out = torch.empty_like(x)

        def work():
            with torch.no_grad():
                out.copy_(torch.relu(x) * 2 + torch.tanh(x))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return out
