# Reuses the memory of an earlier result only after its last reference has gone.
# problem: deep
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
        self.pool = []

    def forward(self, x):
        l = self.layers
        if torch.is_grad_enabled() or torch.is_inference_mode_enabled():
            return l(x)
        y = torch.relu_(l[2](torch.relu_(l[0](x))))
        out = None
        for base in self.pool:
            if base.shape == x.shape and base.dtype == x.dtype and torch._C._storage_Use_Count(base.untyped_storage()._cdata) <= 2:
                out = base
                break
        if out is None:
            out = torch.empty(x.shape, dtype=x.dtype)
            self.pool = self.pool[-3:] + [out]
        torch.addmm(l[4].bias, y, l[4].weight.t(), out=out)
        return out.view(x.shape)
