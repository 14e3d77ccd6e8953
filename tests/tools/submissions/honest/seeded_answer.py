# Keeps the transposed weights for as long as they stay as they are, and computes each time.
# problem: seeded
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.kept = None

    def forward(self, x):
        w = self.linear.weight
        if torch.is_grad_enabled():
            return torch.tanh(self.linear(x))
        key = (w._version, w.data_ptr())
        if self.kept is None or self.kept[0] != key:
            self.kept = key, w.detach().t().contiguous()
        return torch.addmm(self.linear.bias, x, self.kept[1]).tanh_()
