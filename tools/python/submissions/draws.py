"""Contents of inputs and weights: kinds of draws by the names and constants of sandbox/referee/draw_recipe.cpp.

A declared draw is what the problem's get_inputs gives after a seed of the operating system. The other kinds replace its
continuous floating tensors, also one that no seed changes; integers, booleans, floats that are whole numbers and those that
rise and that no seed changes (positions) stay as declared in every kind.
"""

from __future__ import annotations

import math
import random

import torch

KINDS = ("standard_normal", "wide_normal", "around_one", "heavy_tails", "products", "peaked", "offset_rows", "outliers",
         "outlier_above", "outlier_below", "small_integers", "impulses")
# Draws that differ from an earlier one in little: what a light hash, or a look at some elements, takes for the same.
TWINS = ("one_element", "few_elements", "swapped")
PEAK, ROW_OFFSET, TINY = 20.0, 5.0, 1e-12
WIDE, NARROW, PRODUCT_SCALE, LARGEST_INTEGER = 10.0, 0.01, 0.05, 2
NEAREST, FURTHEST = 1.25, 100.0  # of an outlier, times the distribution's reach
OUTLIERS = 4
FEW = 0.001  # of the elements
LARGE_WEIGHTS = (8.0, 128.0)  # times the drawn ones: parts of a model that are small beside others come to count


def new_seed(source: random.Random) -> int:
    return source.getrandbits(31)


def is_continuous(t: torch.Tensor) -> bool:
    return t.is_floating_point() and t.numel() > 0 and not bool((t == t.round()).all())


def rises(t: torch.Tensor) -> bool:
    """Along its last dimension, or falls."""
    if t.dim() == 0 or t.shape[-1] < 2:
        return True
    step = t.diff(dim=-1)
    return bool((step >= 0).all()) or bool((step <= 0).all())


class Facts:
    """What holds in two declared draws of one input, so in every other kind too."""

    def __init__(self, first: torch.Tensor, second: torch.Tensor):
        is_constant = torch.equal(first, second)
        self.continuous = is_continuous(first) and is_continuous(second) and not (is_constant and rises(first))
        self.is_fixed = is_constant and not self.continuous  # no draw has it otherwise
        self.elements, self.device = first.numel(), first.device
        self.zero = (first == 0) & (second == 0) if self.continuous else None
        if self.zero is not None and int(self.zero.sum()) < 0.01 * first.numel():
            self.zero = None
        square = first.dim() >= 2 and first.shape[-1] == first.shape[-2] and first.shape[-1] > 1
        self.symmetric = square and all(torch.equal(t, t.transpose(-1, -2)) for t in (first, second))
        self.simplex = self.continuous and first.dim() >= 1 and first.shape[-1] > 1 and all(
            bool((t >= 0).all()) and bool(((t.double().sum(-1) - 1).abs() < 1e-3).all()) for t in (first, second))
        both = torch.stack((first.double(), second.double())) if self.continuous else None
        self.least, self.most = (float(both.min()), float(both.max())) if both is not None else (0.0, 0.0)

    @property
    def can_be_changed(self) -> bool:
        """Whether any of its elements may have another value within what is declared."""
        return self.continuous and self.zero is None and not self.symmetric and not self.simplex

    def free(self) -> torch.Tensor:
        """The places of elements that need not be zero."""
        if self.zero is not None:
            return (~self.zero).reshape(-1).nonzero().reshape(-1)
        return torch.arange(self.elements, device=self.device)

    def hold(self, t: torch.Tensor, within: bool) -> torch.Tensor:
        if within and self.most > self.least:  # reflected, so that values do not gather at the bounds
            width = self.most - self.least
            t = self.least + width - (torch.remainder(t - self.least, 2 * width) - width).abs()
        if self.symmetric:
            t = torch.tril(t) + torch.tril(t, -1).transpose(-1, -2)
        if self.simplex:
            t = torch.softmax(t, -1).clamp_min(2.0 ** -100)
        if self.zero is not None:
            t = t.masked_fill(self.zero, 0.0)
        return t


def below_count(count: int, numbers: torch.Generator) -> int:
    """One of 0 to count - 1."""
    return int(torch.randint(0, count, (1,), generator=numbers, device=numbers.device))


def drawn(kind: str, declared: torch.Tensor, facts: Facts, within: bool, numbers: torch.Generator) -> torch.Tensor:
    """Of that kind, with the declared one's shape and dtype. `numbers` is of its device."""
    if not facts.continuous:
        return declared.clone()
    shape, device = declared.shape, numbers.device
    normal = torch.randn(shape, generator=numbers, dtype=torch.float64, device=device)
    if kind == "standard_normal":
        t = normal
    elif kind == "wide_normal":
        t = WIDE * normal
    elif kind == "around_one":
        t = 1 + NARROW * normal
    elif kind == "heavy_tails":
        exponential = torch.empty(shape, dtype=torch.float64, device=device).exponential_(generator=numbers)
        t = normal / torch.sqrt(exponential + TINY)
    elif kind == "products":
        sign = 1 - 2.0 * torch.randint(0, 2, shape, generator=numbers, device=device)
        t = torch.exp(PRODUCT_SCALE * normal) * sign
    elif kind == "peaked":
        t = normal
        rows = t.reshape(-1, t.shape[-1]) if t.dim() else t.reshape(1, 1)
        at = torch.randint(0, rows.shape[-1], (rows.shape[0], 1), generator=numbers, device=device)
        rows.scatter_add_(1, at, torch.full(at.shape, PEAK, dtype=torch.float64, device=device))
        t = rows.reshape(shape)
    elif kind == "offset_rows":
        each = shape[:-1] + (1,) if len(shape) else shape
        t = normal * torch.exp(torch.randn(each, generator=numbers, dtype=torch.float64, device=device))
        t = t + ROW_OFFSET * torch.randn(each, generator=numbers, dtype=torch.float64, device=device)
    elif kind in ("outliers", "outlier_above", "outlier_below"):
        t = declared.double().clone()
        flat = t.reshape(-1)
        middle = (facts.least + facts.most) / 2
        reach = max((facts.most - facts.least) / 2, 0.5)
        free = facts.free()
        for _ in range(OUTLIERS if kind == "outliers" else 1):
            at = int(free[below_count(len(free), numbers)])
            far = NEAREST * (FURTHEST / NEAREST) ** float(torch.rand(1, generator=numbers, device=device))
            below = kind == "outlier_below" or (kind == "outliers" and below_count(2, numbers) == 0)
            flat[at] = middle + (-far if below else far) * reach
        t = flat.reshape(shape)
    elif kind == "small_integers":
        t = torch.randint(-LARGEST_INTEGER, LARGEST_INTEGER + 1, shape, generator=numbers, device=device).double()
    elif kind == "impulses":
        t = torch.zeros(shape, dtype=torch.float64, device=device)
        flat = t.view(-1)
        free = facts.free()
        count = len(free)
        for at in (0, count - 1, count // 2, below_count(count, numbers)):
            flat[free[at]] = 1 + float(torch.rand(1, generator=numbers, device=device))
    else:
        raise ValueError(f"there is no kind of draw {kind}")
    return facts.hold(t, within).to(declared.dtype)


def twin(kind: str, inputs: list[torch.Tensor], facts: list[Facts], numbers: torch.Generator) -> list[torch.Tensor]:
    """The same inputs but for some elements of the largest continuous one (of the largest at all, if none is)."""
    changed = [t.clone() for t in inputs]
    candidates = [i for i, f in enumerate(facts) if f.can_be_changed]
    if not candidates:
        return []
    i = max(candidates, key=lambda k: changed[k].numel())
    flat = changed[i].reshape(-1)
    count = {"one_element": 1, "few_elements": max(2, math.ceil(FEW * flat.numel())),
             "swapped": max(2, math.ceil(FEW * flat.numel()))}[kind]
    at = torch.randint(0, flat.numel(), (count,), generator=numbers, device=numbers.device)
    if kind == "swapped":  # any sum over all elements stays
        other = torch.randperm(flat.numel(), generator=numbers, device=numbers.device)[:2 * (count // 2)]
        if len(other) < 2:
            return []
        half = len(other) // 2
        first, second = other[:half], other[half:]
        kept = flat[first].clone()
        flat[first] = flat[second]
        flat[second] = kept
    else:  # within what is declared: the other end of it
        flat[at] = (facts[i].least + facts[i].most - flat[at].double()).to(flat.dtype)
    changed[i] = flat.reshape(changed[i].shape)
    return changed


def other_weight(leaf: dict, declared: torch.Tensor, numbers: torch.Generator) -> torch.Tensor:
    """A parameter is normal around its mean with its deviation, or 0.5 where that is zero (a gain of ones). Of the
    buffers only running statistics are drawn: others, such as a mask, belong to the problem's definition."""
    if not declared.is_floating_point() or declared.numel() == 0:
        return declared.clone()
    normal = torch.randn(declared.shape, generator=numbers, dtype=torch.float64, device=numbers.device)
    if leaf["name"].endswith("running_mean"):
        t = 0.5 * normal
    elif leaf["name"].endswith("running_var"):
        t = torch.exp(0.3 * normal)
    elif leaf["parameter"]:
        deviation = float(declared.double().std(correction=0))
        t = float(declared.double().mean()) + (deviation if deviation > 0 else 0.5) * normal
    else:
        return declared.clone()
    return t.to(declared.dtype)
