"""How far outputs are from those in float64, and from others; and how times are compared."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import statistics
from typing import Any, Iterator

import torch

from .module import leaves

# Of each element beside eager's, absolute and relative: KernelBench's (v0). Two results in a half type may each be some of its
# steps off, so there the error against float64 decides.
USUAL_TOLERANCE = 1e-2
TOLERANCE = {torch.float16: 5e-2, torch.bfloat16: 5e-2}
_TIMES_WORSE = 4.0  # than eager's own error
_NO_ERROR = {torch.float16: 2e-3, torch.bfloat16: 1e-2}  # of all elements against float64: no reason to doubt a variant
_USUAL_NO_ERROR = 1e-2
_BOOTSTRAPS = 400
_STRICT_TIMES_WORSE, _STRICT_NO_ERROR = 32.0, 5e-6  # as the search's own check of float32 outputs


@dataclasses.dataclass(frozen=True)
class Held:
    """What error is accepted of a variant (`cudal1 run --precision`): "eager"; "strict", where eager's own error is that
    without TF32; "half", whose float32 outputs may be off by `bound` of their size."""

    precision: str = "eager"
    bound: float = 0.0

    @contextlib.contextmanager
    def eager_flags(self) -> Iterator[None]:
        """Within it PyTorch computes as what the error is compared with."""
        cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        before = cuda.allow_tf32, cudnn.allow_tf32
        if self.precision == "strict":
            cuda.allow_tf32 = cudnn.allow_tf32 = False
        try:
            yield
        finally:
            cuda.allow_tf32, cudnn.allow_tf32 = before


EAGER = Held()


def held_to(entry: dict[str, Any]) -> Held:
    """Of a program in a package's index."""
    return Held(entry.get("precision", "eager"), entry.get("error_bound", 0.0))


def tolerance_of(t: torch.Tensor) -> float:
    return TOLERANCE.get(t.dtype, USUAL_TOLERANCE)


def error_of(found: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    """The root of the mean square of the differences over that of the exact values; the largest of all tensors."""
    worst = 0.0
    for a, e in zip(found, exact):
        if not a.numel() or not a.is_floating_point():
            continue
        a, e = a.detach().double().cpu(), e.detach().double().cpu()
        finite = e.isfinite()
        if not torch.equal(a.isfinite(), finite):
            return float("inf")
        if not finite.any():
            continue
        off = (a - e)[finite].square().mean().sqrt().item()
        size = e[finite].square().mean().sqrt().item()
        worst = max(worst, off / size if size > 0 else off)
    return worst


def why_different(found: list[torch.Tensor], wanted: list[torch.Tensor], held: Held = EAGER) -> str:
    """"" where all are close; else where they are not. In half precision elements near 0 are as far off as others."""
    if len(found) != len(wanted):
        return f"{len(found)} tensors, and {len(wanted)} were expected"
    for i, (a, w) in enumerate(zip(found, wanted)):
        if a.dtype != w.dtype or a.shape != w.shape:
            return f"output {i} is {a.dtype} {list(a.shape)}, and {w.dtype} {list(w.shape)} was expected"
        a, w, close = a.detach().cpu(), w.detach().cpu(), tolerance_of(w)
        if a.is_floating_point():
            a, w = a.double(), w.double()
            size = w[w.isfinite()].square().mean().sqrt().item() if held.precision == "half" and w.isfinite().any() else 1.0
            if not torch.allclose(a, w, rtol=close, atol=close * max(size, 1.0), equal_nan=True):
                return f"output {i} differs by up to {(a - w).abs().nan_to_num(posinf=0).max().item():.3g}"
        elif not torch.equal(a, w):
            return f"output {i} differs in {int((a != w).sum())} of {a.numel()} values"
    return ""


def compare_modules(model: torch.nn.Module, new: torch.nn.Module, example: tuple | dict, held: Held = EAGER) -> str:
    call = (lambda m: m(**example)) if isinstance(example, dict) else (lambda m: m(*example))
    with torch.no_grad():
        state = torch.random.get_rng_state()
        wanted = leaves(call(model))
        torch.random.set_rng_state(state)
        return why_different(leaves(call(new)), wanted, held)


def is_worse(error: float, of_eager: float, dtype: torch.dtype, held: Held = EAGER) -> bool:
    """Whether an error is that of a broken variant: beyond eager's own (under eager_flags) by a factor, and beyond the
    tolerance."""
    if dtype == torch.float32 and held.precision == "strict":
        return error > max(_STRICT_TIMES_WORSE * of_eager, _STRICT_NO_ERROR)
    if dtype == torch.float32 and held.precision == "half":
        return error > max(_TIMES_WORSE * of_eager, held.bound)
    return error > max(_TIMES_WORSE * of_eager, _NO_ERROR.get(dtype, _USUAL_NO_ERROR))


def ratio_interval(base: list[float], other: list[float], seed: int = 0) -> tuple[float, float, float]:
    """How many times faster `other` is: the median of the ratios of neighbouring samples, and its 95% interval by
    resampling rounds."""
    ratios = [b / o for b, o in zip(base, other)]
    drawn = random.Random(seed)
    medians = sorted(statistics.median(drawn.choices(ratios, k=len(ratios))) for _ in range(_BOOTSTRAPS))
    return statistics.median(ratios), medians[int(0.025 * _BOOTSTRAPS)], medians[int(0.975 * _BOOTSTRAPS) - 1]


def dtype_of(tensors: list[Any]) -> torch.dtype:
    return next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)
