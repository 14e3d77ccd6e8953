# Multiplies by inverse norms, kept away from nought as the problem says.
# problem: eps
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x * torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min_(1e-6).reciprocal_()
