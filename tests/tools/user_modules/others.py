"""Recurrent models, tables, quantised weights, losses, functions."""

from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn


class Tagger(nn.Module):
    """An LSTM that starts from nothing, or from what it is given."""

    def __init__(self, vocabulary=50, dim=12, hidden=10, tags=5):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim, padding_idx=0)
        self.lstm = nn.LSTM(dim, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * hidden, tags)

    def forward(self, ids, hidden: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        output, hidden = self.lstm(self.embedding(ids), hidden)
        return self.fc(output), hidden


def sentences():
    return (torch.randint(1, 50, (3, 7)),)


def sentences_and_state():
    return torch.randint(1, 50, (3, 7)), (torch.zeros(4, 3, 10), torch.randn(4, 3, 10))


class Int8Linear(nn.Module):
    """Weights of eight bits with a scale for each row."""

    def __init__(self, in_features=32, out_features=24):
        super().__init__()
        weight = torch.randn(out_features, in_features)
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        self.register_buffer("weight", torch.round(weight / scale).clamp(-128, 127).to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype) * self.scale.to(x.dtype), self.bias)


class Int4Linear(nn.Module):
    """Two weights in a byte, a scale and a zero for each group."""

    def __init__(self, in_features=32, out_features=24, group=8):
        super().__init__()
        self.group = group
        self.register_buffer("packed", torch.randint(0, 256, (out_features, in_features // 2), dtype=torch.uint8))
        self.register_buffer("scales", torch.rand(out_features, in_features // group) * 0.1)
        self.register_buffer("zeros", torch.full((out_features, in_features // group), 8.0))

    def forward(self, x):
        low, high = self.packed & 0xF, self.packed >> 4
        weight = torch.stack([low, high], dim=-1).reshape(self.packed.shape[0], -1, self.group).to(x.dtype)
        weight = (weight - self.zeros[..., None]) * self.scales[..., None]
        return x @ weight.reshape(self.packed.shape[0], -1).t()


def features():
    return torch.randn(6, 32)


class Bags(nn.Module):
    """Sums of embeddings of bags of words, by offsets."""

    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(40, 8, mode="mean")
        self.fc = nn.Linear(8, 3)

    def forward(self, words, offsets):
        return self.fc(self.table(words, offsets))


def bags():
    return torch.randint(0, 40, (20,)), torch.tensor([0, 4, 9, 15])


class SampledLoss(nn.Module):
    """Cross-entropy over a large vocabulary, from hidden states."""

    def __init__(self, dim=8, classes=50_000):
        super().__init__()
        self.head = nn.Linear(dim, classes, bias=False)

    def forward(self, hidden, targets):
        logits = self.head(hidden).float()
        return F.cross_entropy(logits, targets, ignore_index=-1, reduction="mean")


def hidden_and_targets():
    return torch.randn(6, 8), torch.randint(0, 50_000, (6,))


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Rows without a one in the mask are zeros."""
    scores = scores.masked_fill(~mask, float("-inf"))
    return torch.nan_to_num(torch.softmax(scores, dim=dim), 0.0)


def scores_and_mask():
    return torch.randn(4, 10, 10), torch.ones(10, 10, dtype=torch.bool).tril(-1)


class Bilinear(nn.Module):
    """Products over several axes at once."""

    def __init__(self, a=6, b=7, rank=5):
        super().__init__()
        self.u = nn.Parameter(torch.randn(a, rank, 3))
        self.v = nn.Parameter(torch.randn(b, rank, 3))
        self.core = nn.Parameter(torch.randn(3, 3, 4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Dict[str, List[torch.Tensor]]:
        left = torch.einsum("na,ark->nrk", x, self.u)
        right = torch.einsum("nb,brk->nrk", y, self.v)
        joined = torch.einsum("nrk,nrl,klo->no", left, right, self.core)
        gram = torch.einsum("nrk,mrk->nm", left, right)
        return {"joined": [joined], "grams": [gram, torch.einsum("ii->i", gram @ gram.T)]}


def pairs():
    return {"y": torch.randn(9, 7), "x": torch.randn(9, 6)}


def clip_loss(image_features, text_features, logit_scale):
    """Of CLIP."""
    image_features = F.normalize(image_features, dim=-1)
    text_features = image_features.new_tensor(2.0).sqrt() * F.normalize(text_features, dim=-1)
    logits = logit_scale.exp() * image_features @ text_features.t()
    labels = torch.arange(logits.shape[0], device=logits.device)
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


def image_and_text():
    return torch.randn(8, 16), torch.randn(8, 16), torch.tensor(2.6592)


class StateSpace(nn.Module):
    """A scan over time as a loop."""

    def __init__(self, dim=6, state=4):
        super().__init__()
        self.a_log = nn.Parameter(torch.log(torch.arange(1, state + 1, dtype=torch.float32).repeat(dim, 1)))
        self.d = nn.Parameter(torch.ones(dim))
        self.x_proj = nn.Linear(dim, 1 + 2 * state, bias=False)

    def forward(self, u):
        delta, b, c = self.x_proj(u).split([1, 4, 4], dim=-1)
        delta = F.softplus(delta)
        decay = torch.exp(-delta.unsqueeze(-1) * self.a_log.exp())
        state = u.new_zeros(u.shape[0], u.shape[2], 4)
        ys = []
        for t in range(u.shape[1]):
            state = decay[:, t] * state + (delta[:, t] * u[:, t]).unsqueeze(-1) * b[:, t].unsqueeze(1)
            ys.append((state * c[:, t].unsqueeze(1)).sum(-1))
        return torch.stack(ys, dim=1) + u * self.d

    @staticmethod
    def example_inputs():
        return torch.randn(2, 5, 6)


class AutoEncoder(nn.Module):
    """Decodes with the weights that it encodes with; the loss counts its calls, which no result depends on."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(16, 4)
        self.bias = nn.Parameter(torch.zeros(16))
        self.steps = 0

    def forward(self, x, *extra, beta: float = 0.5, **options):
        self.steps += 1
        z = torch.tanh(self.encoder(x))
        y = F.linear(z, self.encoder.weight.t(), self.bias)
        loss = F.mse_loss(y, x) + beta * z.pow(2).mean()
        return (y, loss, *extra) if options.get("with_loss", True) else y


def with_options():
    return {"x": torch.randn(9, 16), "beta": 0.25, "with_loss": False}


def with_extra():
    return torch.randn(9, 16), torch.randn(3), torch.randn(2)


class Beamform(nn.Module):
    """Complex weights of a beam former: a spectrum's real and imaginary parts, its phase turned."""

    def __init__(self, channels=4, bins=9):
        super().__init__()
        self.phase = nn.Parameter(torch.rand(channels, bins))

    def forward(self, spectrum):
        z = torch.complex(spectrum[..., 0], spectrum[..., 1])
        turned = z * torch.polar(torch.ones_like(self.phase), self.phase)
        beam = turned.sum(1) + z.mean(dim=1).conj()
        return torch.view_as_real(beam), beam.abs(), beam.real

    @staticmethod
    def example_inputs():
        return torch.randn(2, 4, 9, 2)


class ComplexOut(nn.Module):
    def forward(self, x):
        return torch.view_as_complex(x) * 2

    @staticmethod
    def example_inputs():
        return torch.randn(2, 4, 9, 2)


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x).abs()

    @staticmethod
    def example_inputs():
        return torch.randn(2, 16)


class Cache:
    def __init__(self, keys):
        self.keys = keys


class Cached(nn.Module):
    def forward(self, x):
        return {"x": x * 2, "past_key_values": Cache(x)}

    @staticmethod
    def example_inputs():
        return torch.randn(2, 16)


class Nibbles(nn.Module):
    """Signed numbers of four bits, two in a byte, unpacked in place and by masks."""

    def forward(self, codes, amount):
        high, low = codes.clone(), codes.clone()
        high >>= 4
        low <<= 4
        low >>= amount
        flags = (codes & 1).bool() | ~(codes ^ 3).bool()
        masked = torch.bitwise_or(codes & 0xF0, 3)
        powers = 1 << (masked & 7).int()
        return high, low, flags, masked, powers


def codes_and_amount():
    return torch.randint(-128, 128, (6, 10), dtype=torch.int8), torch.full((10,), 4, dtype=torch.int8)
