"""A model that launches a Triton kernel of its own."""

import torch
import triton
import triton.language as tl


@triton.jit
def doubled(x, y, n: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, n)
    tl.store(y + at, tl.load(x + at) * 2)


class Doubled(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        doubled[(x.numel() // 64,)](x, y, 64)
        return y


def rows():
    return torch.randn(64, 64)
