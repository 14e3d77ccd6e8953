# Uses that the module's mask is causal, and asks the fused function for causal attention.
# problem: minattention
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.project = nn.Linear(d, 3 * d)
        self.register_buffer("bias", torch.tril(torch.ones(n, n)))

    def forward(self, x):
        q, k, v = self.project(x).unsqueeze(1).chunk(3, -1)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1)
