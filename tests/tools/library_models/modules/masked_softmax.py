"""Attention weights of padded sequences, with ALiBi's slopes."""

import torch
from torch import nn


class MaskedSoftmax(nn.Module):
    def __init__(self, heads=8):
        super().__init__()
        self.register_buffer("slopes", torch.tensor([2.0 ** (-8 * (i + 1) / heads) for i in range(heads)]))

    def forward(self, scores, lengths):
        longest = scores.shape[-1]
        place = torch.arange(longest, device=scores.device)
        bias = self.slopes.view(-1, 1, 1) * (place[None, :] - place[:, None])
        kept = place[None, :] < lengths[:, None]
        scores = (scores + bias).masked_fill(~kept[:, None, None, :], torch.finfo(scores.dtype).min)
        return torch.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)
