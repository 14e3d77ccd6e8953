"""Images and signals."""

from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    """A grouped convolution between two of size one, with batch norm."""

    def __init__(self, channels=16, groups=4):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


training = Bottleneck()
evaluating = Bottleneck().eval()


def images():
    return torch.rand(2, 16, 12, 12)


def channels_last_images():
    return torch.rand(2, 16, 12, 12).to(memory_format=torch.channels_last)


@dataclass
class ClassifierOutput:
    logits: torch.Tensor
    loss: Optional[torch.Tensor] = None
    hidden_states: Any = None


class Classifier(nn.Module):
    def __init__(self, classes: int = 10):
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 4, stride=4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 24))
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 24), nn.GELU()) for _ in range(2))
        self.head = nn.Linear(24, classes)

    def forward(self, pixel_values, labels=None, output_hidden_states: bool = False, return_dict: bool = True):
        x = self.patches(pixel_values).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1)
        states = (x,)
        for block in self.blocks:
            x = x + block(x)
            states += (x,)
        logits = self.head(x[:, 0])
        loss = F.cross_entropy(logits, labels, label_smoothing=0.1) if labels is not None else None
        if not return_dict:
            return (logits, loss)
        return ClassifierOutput(logits=logits, loss=loss, hidden_states=states if output_hidden_states else None)


def labelled():
    return dict(pixel_values=torch.randn(2, 3, 16, 16), labels=torch.randint(0, 10, (2,)))


def with_states():
    return dict(pixel_values=torch.randn(2, 3, 16, 16), output_hidden_states=True)


def as_tuple():
    return dict(pixel_values=torch.randn(2, 3, 16, 16), return_dict=False)


class Residual(nn.Module):
    """Of a diffusion model: group norm, SiLU, the step's embedding, and an upsampled result."""

    def __init__(self, cin=8, cout=16, emb=20):
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(4, cin), nn.SiLU(), nn.Conv2d(cin, cout, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(emb, 2 * cout))
        self.out_norm = nn.GroupNorm(4, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, batch: dict) -> dict:
        x, emb = batch["x"], batch["emb"]
        h = self.in_layers(x)
        scale, shift = self.emb_layers(emb)[..., None, None].chunk(2, dim=1)
        h = self.out_norm(h) * (1 + scale) + shift
        return {"x": F.interpolate(self.skip(x) + h, scale_factor=2, mode="nearest"), "emb": emb}


def batch():
    return {"x": torch.randn(2, 8, 6, 6), "emb": torch.randn(2, 20)}


class Mixed(nn.Module):
    """Half precision in a region, float32 around it."""

    def __init__(self, dim=32):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)
        self.head = nn.Linear(dim, 8)

    def forward(self, x):
        x = self.norm(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.down(F.gelu(self.up(x)))
            with torch.autocast("cpu", enabled=False):
                h = h.float().softmax(-1)
        return self.head(x + h)


class MixedByDecorator(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.mix = nn.Linear(dim, dim)
        self.attention = nn.Linear(dim, dim)

    @torch.autocast(device_type="cpu", dtype=torch.bfloat16)
    def forward(self, x):
        y = self.mix(x)
        scores = torch.einsum("bid,bjd->bij", y, self.attention(x))
        return torch.matmul(scores.softmax(-1), y).sum(1)


class MixedOnGpu(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.up = nn.Linear(dim, 4 * dim)
        self.norm = nn.LayerNorm(4 * dim)

    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.norm(F.relu(self.up(x)))


class MixedAndAsked(MixedOnGpu):
    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = self.norm(F.relu(self.up(x)))
            return torch.ones(4, 16, 1, dtype=y.dtype) * 0.3 + y


class MixedProductsOnGpu(nn.Module):
    """What is autocast is the same on every device."""

    def __init__(self, dim=32):
        super().__init__()
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            y = self.down(F.relu(self.up(x)))
        return y.float() + x


def rows():
    return torch.randn(4, 16, 32)


class Causal(nn.Module):
    """A gated convolution over the past."""

    def __init__(self, channels=8, dilation=2):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(channels, 2 * channels, 3, dilation=dilation))

    def forward(self, x):
        return x + F.glu(self.conv(F.pad(x, (self.pad, 0))), dim=1)

    @staticmethod
    def example_inputs():
        return torch.randn(2, 8, 40)
