"""The router of a mixture of experts: softmax of 64 gates in float32, weights of the best 8, 8192 tokens of 1024."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim=1024, experts=64, chosen=8):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False).to(torch.bfloat16)
        self.chosen = chosen

    def forward(self, x):
        logits = F.linear(x.float(), self.gate.weight.float())
        weights, experts = torch.topk(logits.softmax(dim=-1), self.chosen, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return torch.zeros_like(logits).scatter(-1, experts, weights).to(x.dtype)


def get_inputs():
    return [torch.randn(8192, 1024, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
