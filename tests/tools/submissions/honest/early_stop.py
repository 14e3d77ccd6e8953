# Raises and catches an exception within its call, looks at its own frame only, and computes honestly.
# problem: deep
import ctypes
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
        self.line = 0
        self.word = ctypes.c_size_t(0)

    def forward(self, x):
        try:
            x.no_such_attribute
        except AttributeError as e:
            self.line = e.__traceback__.tb_frame.f_lineno
        ctypes.c_size_t.from_address(ctypes.addressof(self.word)).value += 1
        return self.layers(x)
