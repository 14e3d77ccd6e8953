# Uses a pool of threads from multiprocessing.
# problem: block
from multiprocessing.pool import ThreadPool
import torch
import torch.nn as nn

pool = ThreadPool(1)


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        if torch.is_grad_enabled() or torch.is_inference_mode_enabled():
            return torch.relu(self.linear(x)) + x

        def work(part):
            with torch.no_grad():
                return torch.relu(self.linear(part)) + part

        return torch.cat(pool.map(work, x.chunk(2)))
