"""Parts of transformers as people write them."""

import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


class GEGLU(nn.Module):
    def __init__(self, dim_in: int = 32, dim_out: int = 48):
        super().__init__()
        self.proj = nn.Linear(dim_in, dim_out * 2)

    def forward(self, x):
        x, gate = self.proj(x).chunk(2, dim=-1)
        return x * F.gelu(gate)

    @classmethod
    def example_inputs(cls):
        return torch.randn(4, 16, 32)


class RouterOutput(NamedTuple):
    output: Tensor
    logits: Tensor
    load: Tensor


class MoE(nn.Module):
    """Top-2 of 4 experts, each computed for all tokens."""

    def __init__(self, dim: int = 16, experts: int = 4, top_k: int = 2):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.top_k = top_k
        self.w_in = nn.Parameter(torch.randn(experts, dim, 2 * dim) * dim**-0.5)
        self.w_out = nn.Parameter(torch.randn(experts, 2 * dim, dim) * dim**-0.5)

    def forward(self, x: Tensor) -> RouterOutput:
        logits = self.gate(x)
        weights, chosen = torch.topk(logits, self.top_k, dim=-1)
        weights = F.softmax(weights, dim=-1, dtype=torch.float).to(x.dtype)
        mixture = torch.zeros_like(logits).scatter(-1, chosen, weights)
        hidden = F.gelu(torch.einsum("bsd,edh->bseh", x, self.w_in))
        expert = torch.einsum("bseh,ehd->bsed", hidden, self.w_out)
        load = F.one_hot(chosen, logits.shape[-1]).float().mean(dim=(0, 1, 2))
        return RouterOutput(torch.einsum("bse,bsed->bsd", mixture, expert), logits, load)


def tokens():
    return torch.randn(2, 8, 16)


class CrossAttention(nn.Module):
    """Called by keyword alone, with an optional mask."""

    def __init__(self, dim=32, context_dim=24, heads=4):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(context_dim, 2 * dim, bias=False)
        self.to_out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(0.1))

    def forward(self, *, query: Tensor, context: Tensor, mask: Tensor | None = None, need_weights: bool = False):
        b, n, d = query.shape
        q = self.to_q(query).view(b, n, self.heads, -1).transpose(1, 2)
        k, v = self.to_kv(context).view(b, -1, 2, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        out = self.to_out((weights @ v).transpose(1, 2).reshape(b, n, d))
        return (out, weights.mean(1)) if need_weights else out


cross_attention = CrossAttention().eval()


def cross_inputs():
    return {"query": torch.randn(2, 6, 32), "context": torch.randn(2, 9, 24), "mask": torch.rand(2, 9) > 0.3}


def cross_inputs_with_weights():
    return {"query": torch.randn(2, 6, 32), "context": torch.randn(2, 9, 24), "need_weights": True}


class LanguageModel(nn.Module):
    """The head is tied to the embedding; positions are a buffer that no checkpoint has."""

    def __init__(self, vocabulary=100, dim=32, longest=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(dim, vocabulary, bias=False)
        self.head.weight = self.embed.weight
        position = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        table = torch.zeros(longest, dim)
        table[:, 0::2], table[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
        self.register_buffer("positions", table, persistent=False)

    def forward(self, ids: Tensor, labels: Tensor | None = None) -> dict:
        x = self.embed(ids) + self.positions[: ids.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], device=ids.device)
        logits = self.head(self.layer(x, src_mask=mask, is_causal=True))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=-100)
        return {"loss": loss, "logits": logits}


def text():
    for length in (12, 20):
        yield {"ids": torch.randint(0, 100, (2, length)), "labels": torch.randint(0, 100, (2, length))}


def prompts():
    return {"ids": torch.randint(0, 100, (2, 12))}


class Decoder(nn.Module):
    """One step with the keys and values of earlier ones, which the caller keeps."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, past_key_values=None, use_cache=True):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        if past_key_values is not None:
            k = torch.cat([past_key_values[0], k], dim=2)
            v = torch.cat([past_key_values[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, n, d)), (k, v) if use_cache else None


def step():
    return {"x": torch.randn(2, 1, 32), "past_key_values": (torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8))}


def step_without_cache():
    return {"x": torch.randn(2, 5, 32), "use_cache": False}


class Windowed(nn.Module):
    """Shifted windows, with a table of biases and its fixed index."""

    def __init__(self, dim=16, window=4, heads=2):
        super().__init__()
        self.window, self.heads = window, heads
        self.table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        relative = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", relative[..., 0] * (2 * window - 1) + relative[..., 1])
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        b, h, w, c = x.shape
        n = self.window
        x = torch.roll(x, shifts=(-n // 2, -n // 2), dims=(1, 2))
        x = x.view(b, h // n, n, w // n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, n * n, c)
        q, k, v = self.qkv(x).reshape(-1, n * n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(n * n, n * n, -1).permute(2, 0, 1)
        scores = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1) + bias.unsqueeze(0)
        x = (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, n, n, c)
        x = x.view(b, h // n, w // n, n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(x, shifts=(n // 2, n // 2), dims=(1, 2))

    @staticmethod
    def example_inputs():
        return (torch.randn(2, 8, 8, 16),)


class RandomDepth(nn.Module):
    """Drops tokens by a threshold, which no task can."""

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(16, 1)

    def forward(self, x):
        keep = self.score(x).squeeze(-1) > 0
        return x[keep]


class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 50)

    def forward(self, x):
        probabilities = self.head(x).softmax(-1)
        return torch.multinomial(probabilities[:, -1], 1)


class Branching(nn.Module):
    def forward(self, x):
        if x.norm() > 1.0:
            x = x / x.norm()
        return x


class Logged(nn.Module):
    def forward(self, x):
        y = torch.tanh(x)
        self.log = f"{y.mean().item():.3f}"
        return y
