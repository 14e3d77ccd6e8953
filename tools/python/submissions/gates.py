"""Whether an answer is right: gates 1 to 4 of sandbox/verify/README.md, with the same constants, on tensors that the
referee has taken out of shared memory."""

from __future__ import annotations

import dataclasses
import math

import torch

HALF_TYPES = (torch.float16, torch.bfloat16)
CLOSE, CLOSE_WIDE = 1e-4, 1e-2  # gate 2; the second for half types, and where eager itself is further off than the first
ERROR_FACTOR, ERROR_FLOOR, ERROR_FLOOR_HALF, ERROR_FLOOR_64 = 32.0, 5e-6, 1e-3, 1e-12  # gate 3
SIGNAL_FLOOR, SIGNAL_FLOOR_HALF, SIGNAL_RESOLUTION = 1e-2, 1e-1, 1e6  # gate 4
MOST_BY_ROUNDING = 3e-4  # of the size, on declared draws


@dataclasses.dataclass
class Expected:
    """One output of the reference: as PyTorch ships it, exact (float64; None where the model has none), and how far
    the exact one moves when the inputs move by a unit in the last place (None: not computed)."""

    shipped: torch.Tensor
    exact: torch.Tensor | None
    moved: torch.Tensor | None = None


@dataclasses.dataclass
class EagerError:
    """How far eager's own output is from float64 on declared draws: what other calls may be off by."""

    wide: bool  # more than gate 2 allows
    relative: float

    @staticmethod
    def of(shipped: torch.Tensor, exact: torch.Tensor) -> EagerError:
        a, b = shipped.double(), exact.double()
        finite = bool(torch.isfinite(a).all() & torch.isfinite(b).all())
        if not shipped.is_floating_point() or a.numel() == 0 or not finite:
            return EagerError(False, 0.0)
        return EagerError(float(((a - b).abs() / (1 + b.abs())).max()) > CLOSE, rms(a - b) / max(rms(b), 1e-300))

    @staticmethod
    def worse(known: EagerError | None, other: EagerError) -> EagerError:
        return other if known is None else EagerError(known.wide or other.wide, max(known.relative, other.relative))


def rms(t: torch.Tensor) -> float:
    return math.sqrt(float(t.double().square().mean())) if t.numel() else 0.0


def wrong_form(got: dict, wanted: dict) -> str:
    if got["device"] != wanted["device"]:
        return f"is on {got['device']}, and the reference's on {wanted['device']}"
    if got["dtype"] != wanted["dtype"]:
        return f"is {got['dtype']}, and the reference's {wanted['dtype']}"
    if got["shape"] != wanted["shape"]:
        return f"has shape {got['shape']}, and the reference's {wanted['shape']}"
    if wanted["dense"] and not got["dense"]:
        return f"has strides {got['strides']}: elements share memory or have gaps, and the reference's do not"
    return ""


def without_common_infinities(got: torch.Tensor, e: Expected) -> tuple[str, torch.Tensor]:
    """Which elements are to be compared: those that are finite in both. An element that is finite where the reference
    overflows is right if the exact one says so."""
    a, b = torch.isfinite(got), torch.isfinite(e.shipped)
    if torch.equal(a, b):
        other = ~b
        same = torch.equal(torch.isnan(got), torch.isnan(e.shipped)) and torch.equal(
            got[other].nan_to_num(0.0, 1.0, -1.0), e.shipped[other].nan_to_num(0.0, 1.0, -1.0))
        return ("" if same else "has another infinity, or NaN, than the reference"), b
    if bool((~a & b).any()):
        return f"is not finite at {int((~a & b).sum())} elements where the reference is", b
    if e.exact is None or not bool(torch.isfinite(e.exact[a & ~b]).all()):
        return f"is finite at {int((a & ~b).sum())} elements where the reference is not", b
    return "", a


def wrong(got: torch.Tensor, e: Expected, declared: bool) -> str:
    """What is wrong with one output, in words; "" if nothing is."""
    if got.numel() == 0:
        return ""
    if not got.is_floating_point():
        off = int((got != e.shipped).sum())
        return f"differs at {off} of {got.numel()} elements" if off else ""
    problem, compared = without_common_infinities(got, e)
    if problem:
        return problem
    if not bool(compared.any()):
        return ""
    half = got.dtype in HALF_TYPES
    everywhere = bool(compared.all())

    def taken(t: torch.Tensor) -> torch.Tensor:
        return t.reshape(-1) if everywhere else t[compared]

    shipped = taken(e.shipped).double()
    exact = taken(e.exact) if e.exact is not None else shipped
    mine = taken(got).double()
    moved = taken(e.moved).abs() if e.moved is not None else torch.zeros((), dtype=torch.float64)
    if declared:
        moved = moved.clamp(max=MOST_BY_ROUNDING * max(rms(exact), 1e-30))
    # Gate 2.
    size = max(1.0, rms(exact)) if not declared else 1.0
    base = torch.minimum((shipped - exact).abs() / (size + exact.abs()), torch.full((), math.inf, dtype=torch.float64))
    close = CLOSE_WIDE if half or float(base.max()) > CLOSE else CLOSE
    allowed = close * (size + shipped.abs()) + ERROR_FACTOR * moved
    off = torch.minimum((mine - shipped).abs(), (mine - exact).abs())
    if bool((off > allowed).any()):
        worst = float((off / allowed).max())
        return (f"is off by up to {float(off.max()):.3g}, {worst:.3g} times what allclose({close:g}) allows, at "
                f"{int((off > allowed).sum())} of {got.numel()} elements")
    # Gate 3.
    whole, scale = rms(mine - exact), rms(exact)
    own = max(rms(shipped - exact), rms(moved))
    floor = ERROR_FLOOR_HALF if half else ERROR_FLOOR_64 if got.dtype == torch.float64 else ERROR_FLOOR
    if e.exact is not None and whole > max(ERROR_FACTOR * own, floor * scale) and scale > 0:
        return (f"has a relative error of {whole / scale:.2g} against float64, where eager's own is "
                f"{own / scale:.2g}")
    # Gate 4.
    if e.exact is not None and exact.numel() > 1:
        deviation = float(exact.std(correction=0))
        signal_floor = SIGNAL_FLOOR_HALF if half else SIGNAL_FLOOR
        if deviation * SIGNAL_RESOLUTION > scale and whole > max(ERROR_FACTOR * own, signal_floor * deviation):
            return (f"differs by {whole / deviation:.2g} of the result's own deviation: a constant would be as near")
    return ""


def is_near(got: torch.Tensor, shipped: torch.Tensor, error: EagerError) -> bool:
    """Of the same output of several calls, one behind the other: gate 2 of declared draws against eager's output, and,
    where eager's own error is wide, gate 3 with that error."""
    if not got.is_floating_point():
        return torch.equal(got, shipped)
    mine, wanted = got.double().reshape(len(got), -1), shipped.double().reshape(len(got), -1)
    off = (mine - wanted).abs()
    close = CLOSE_WIDE if got.dtype in HALF_TYPES or error.wide else CLOSE
    within = (off <= close * (1 + wanted.abs())).all()  # false where one is not finite
    if error.wide:
        within &= (off.square().mean(1) <= (ERROR_FACTOR * error.relative) ** 2 * wanted.square().mean(1)).all()
    return bool(within)


def null_models(inputs: list[torch.Tensor], wanted: torch.Tensor, before: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """Answers that take no work."""
    found = {"zeros": torch.zeros_like(wanted)}
    if wanted.is_floating_point() and wanted.numel() > 1:  # of a single number it is that number
        found["a constant"] = torch.full_like(wanted, float(wanted.double().nanmean()))
    for i, t in enumerate(inputs):
        if t.shape == wanted.shape and t.dtype == wanted.dtype:
            found[f"input {i} passed through"] = t
    if before is not None:
        found["the previous answer"] = before
    return found
