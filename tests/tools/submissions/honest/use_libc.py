# Calls a function of the C library through ctypes on memory of its own.
# problem: block
import ctypes
import torch
import torch.nn as nn

libc = ctypes.CDLL(None)
libc.memcpy.restype = ctypes.c_void_p
libc.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        y = torch.relu(self.linear(x)) + x
        if torch.is_grad_enabled():
            return y
        out = torch.empty_like(y)
        libc.memcpy(out.data_ptr(), y.data_ptr(), y.numel() * y.element_size())
        return out
