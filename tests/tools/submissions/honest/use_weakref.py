# Keeps its weights weakly, by the tensor, and a finalizer that counts.
# problem: block
import weakref
import torch
import torch.nn as nn

counts = [0]


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.cache = weakref.WeakKeyDictionary()
        weakref.finalize(self, counts.append, 1)

    def forward(self, x):
        w = self.linear.weight
        key = w._version, w.data_ptr()
        if torch.is_grad_enabled():
            return torch.relu(self.linear(x)) + x
        if self.cache.get(self.linear, (None,))[0] != key:
            self.cache[self.linear] = key, w.detach().t().contiguous()
        return torch.relu(torch.addmm(self.linear.bias, x, self.cache[self.linear][1])) + x
