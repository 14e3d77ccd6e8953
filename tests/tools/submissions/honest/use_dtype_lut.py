# Uses a dispatch table of functions for devices and dtypes.
# problem: block
import torch
import torch.nn as nn

TABLE = {("cpu", torch.float32): torch.nn.functional.linear}


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        f = TABLE.get((x.device.type, x.dtype), torch.nn.functional.linear)
        return torch.relu(f(x, self.linear.weight, self.linear.bias)) + x
