# Keeps a workspace in the class, shared by all instances, which is written anew before it is read.
# problem: chain
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    work = {}

    def __init__(self, n):
        super().__init__()
        self.first = nn.Linear(n, n)
        self.second = nn.Linear(n, n)

    def forward(self, x):
        if torch.is_grad_enabled():
            return self.second(self.first(x))
        key = (tuple(x.shape), x.dtype)
        if key not in ModelNew.work:
            ModelNew.work[key] = torch.empty_like(x)
        y = torch.addmm(self.first.bias, x, self.first.weight.t(), out=ModelNew.work[key])
        return self.second(y)
