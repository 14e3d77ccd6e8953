"""The distribution of a tensor's values, as sandbox/program/quantiles.hpp has it."""

from __future__ import annotations

import math

import torch

INTERVALS = 32
# So many that the tails are known, and so few that a value of 10 standard deviations is rarely among them: the outermost
# intervals are drawn from evenly.
SAMPLE = 4096
_LEVELS = torch.tensor([(1 - math.cos(math.pi * k / INTERVALS)) / 2 for k in range(INTERVALS + 1)], dtype=torch.float64)


def quantiles_of(t: torch.Tensor) -> list[float]:
    """Of values at random places, to four digits; none where they are no numbers or all the same."""
    if not t.is_floating_point() or t.numel() < 2:
        return []
    places = torch.randint(t.numel(), (SAMPLE,), generator=torch.Generator().manual_seed(0))
    sample = t.reshape(-1)[places].double()
    if not bool(sample.isfinite().all()):
        return []
    found = [float(f"{q:.4g}") + 0.0 for q in torch.quantile(sample, _LEVELS).tolist()]  # + 0.0: no -0.0
    return found if found[0] < found[-1] else []
