# Reads about the processor and the environment, to choose its tile.
# problem: block
import os
import platform
import torch
import torch.nn as nn

try:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        wide = "avx512f" in file.read()
except OSError:
    wide = False
machine = platform.machine(), os.cpu_count(), os.environ.get("OMP_NUM_THREADS")


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        return torch.relu(self.linear(x)) + x
