"""The cross-entropy of 1024 tokens over the 50257 classes of GPT-2."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, logits, targets):
        return F.cross_entropy(logits, targets)


def get_inputs():
    return [torch.randn(1024, 50257, dtype=torch.bfloat16), torch.randint(0, 50257, (1024,))]


def get_init_inputs():
    return []
