# Uses the fused attention function.
# problem: attention
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
