# Keeps a scratch tensor from its first call and computes the mean anew into it every time, and returns a copy.
# problem: mse
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        if not hasattr(self, "work") or self.work.shape != a.shape or torch.is_grad_enabled():
            self.work = torch.empty_like(a)
        if torch.is_grad_enabled():
            return torch.nn.functional.mse_loss(a, b)
        torch.sub(a, b, out=self.work)
        return self.work.square_().mean()
