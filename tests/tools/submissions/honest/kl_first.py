# Keeps the number of rows of its first call, for nothing but its own use, and computes every time.
# problem: kl
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, p, t):
        if not hasattr(self, "kept"):
            self.kept = p.size(0)
        return torch.nn.functional.kl_div(torch.log(p), t, reduction="sum") / p.size(0)
