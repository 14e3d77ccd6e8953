"""Has a subclass of Tensor, and returns a plain one."""
# problem: block
import torch
import torch.nn as nn

class Named(torch.Tensor):
    pass


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        y = (torch.relu(self.linear(x)) + x).as_subclass(Named)
        return y.as_subclass(torch.Tensor)
