"""How an input is drawn, and what is always true of it: inferred from get_inputs with several seeds."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

from .lineage import Lineage, Recorder
from .refusal import Refused
from .source import SEED, Loaded

SEEDS = (SEED + 1, SEED + 2, SEED)  # the last one's tensors are kept: they are KernelBench's
_SAMPLE = 1 << 20  # most elements for moments
_SURE = 6.0  # standard errors: a right guess is refused less than once in 10^8


@dataclasses.dataclass
class Drawn:
    """One tensor of get_inputs."""

    tensor: torch.Tensor
    draw: dict[str, Any]
    facts: list[str]


@dataclasses.dataclass
class _Look:
    """What one seed's tensor looks like."""

    lineage: Lineage | None
    facts: set[str]
    sample: torch.Tensor  # float64, of the elements that the facts leave free
    digest: float
    lowest: float
    highest: float


def _matrix_facts(t: torch.Tensor) -> set[str]:
    if t.dim() < 2 or min(t.shape[-2:]) < 2:
        return set()
    facts = set()
    rows, columns = t.shape[-2:]
    # A corner first: it rules out most tensors at almost no cost.
    corner = t[..., : min(rows, 64), : min(columns, 64)]
    if not corner.triu(1).any() and not t.triu(1).any():
        facts.add("lower_triangular")
    if not corner.tril(-1).any() and not t.tril(-1).any():
        facts.add("upper_triangular")
    if len(facts) == 2:
        return {"diagonal"}
    if rows == columns:
        square = corner if corner.shape[-1] == corner.shape[-2] else t
        if torch.equal(square, square.mT) and torch.equal(t, t.mT):
            facts.add("symmetric")
    return facts


def _is_one_hot(t: torch.Tensor) -> bool:
    if t.dim() < 1 or t.shape[-1] < 2 or t.dtype == torch.bool:
        return False
    return bool(((t == 0) | (t == 1)).all()) and bool((t.sum(-1) == 1).all())


def _free_elements(t: torch.Tensor, facts: set[str]) -> torch.Tensor:
    """The elements that the facts leave free, in one dimension; a regular sample if there are many."""
    if "diagonal" in facts:
        t = t.diagonal(dim1=-2, dim2=-1)
    elif facts & {"lower_triangular", "upper_triangular", "symmetric"}:
        rows, columns = t.shape[-2:]
        triangle = torch.ones(rows, columns, dtype=torch.bool)
        # Without the diagonal of a symmetric matrix, which has another variance in (A + A.T) / 2.
        upper = not facts & {"lower_triangular"}
        t = t[..., triangle.triu(1 if "symmetric" in facts else 0) if upper else triangle.tril()]
    flat = t.reshape(-1)
    step = max(1, flat.numel() // _SAMPLE)
    return flat[::step][:_SAMPLE].double()


def _look(t: torch.Tensor, lineage: Lineage | None) -> _Look:
    with torch.no_grad():
        facts = _matrix_facts(t)
        if _is_one_hot(t):
            facts.add("one_hot")
        sample = _free_elements(t, facts)
        lowest, highest = (float(x) for x in t.aminmax()) if t.dtype != torch.bool else (0.0, 1.0)
    return _Look(lineage, facts, sample, float(sample.sum()), lowest, highest)


def _nice(x: float) -> float:
    """Rounded to the digits that a sample can determine."""
    return float(f"{x:.3g}")


def _share_is(sample: torch.Tensor, p: float) -> bool:
    n = sample.numel()
    return abs(float(sample.mean()) - p) <= _SURE * math.sqrt(max(p * (1 - p), 1e-12) / n) + 1e-9


def _moments_fit(sample: torch.Tensor, mean: float, variance: float, fourth: float) -> bool:
    """`fourth`: the fourth central moment over the squared variance, which says how well a variance
    is known."""
    n = sample.numel()
    if n < 2:
        return True
    off = abs(float(sample.mean()) - mean)
    if off > _SURE * math.sqrt(variance / n) + 1e-3 * math.sqrt(variance) + 1e-12:
        return False
    own = float(((sample - mean) ** 2).mean())
    return abs(own - variance) <= variance * (_SURE * math.sqrt(max(fourth - 1, 0.1) / n) + 5e-3) + 1e-24


def _agrees(look: _Look, guess: Lineage, t: torch.Tensor) -> bool:
    s = look.sample
    epsilon = 1e-2 if t.dtype in (torch.float16, torch.bfloat16) else 1e-6
    if guess.kind == "uniform":
        slack = epsilon * max(abs(guess.low), abs(guess.high))
        inside = float(s.min()) >= guess.low - slack and float(s.max()) <= guess.high + slack
        return inside and _moments_fit(
            s, (guess.low + guess.high) / 2, (guess.high - guess.low) ** 2 / 12, 1.8
        )
    if guess.kind == "normal":
        return _moments_fit(s, guess.mean, guess.std**2, 3.0)
    if guess.kind == "integer":
        whole = bool((s == s.round()).all()) and look.lowest >= guess.low and look.highest <= guess.high - 1
        count = guess.high - guess.low
        return whole and _moments_fit(s, (guess.low + guess.high - 1) / 2, (count**2 - 1) / 12, 1.8)
    if guess.kind == "bernoulli":
        return bool(((s == 0) | (s == 1)).all()) and _share_is(s, guess.probability)
    if guess.kind == "signs":
        return bool((s.abs() == 1).all()) and _share_is((s + 1) / 2, 0.5)
    if guess.kind == "simplex":
        rows = t.double().sum(-1)
        return look.lowest >= 0 and bool(((rows - 1).abs() < 1e-3).all())
    return look.lowest == look.highest == guess.value  # constant


def _guess(look: _Look, t: torch.Tensor) -> Lineage | None:
    """From the values alone."""
    s = look.sample
    made = "what its values look like"
    if look.lowest == look.highest:
        return Lineage("constant", made, value=look.lowest)
    if "one_hot" in look.facts:
        return Lineage("integer", made, low=0, high=2)
    if s.numel() < 1000:
        return None
    if t.dtype == torch.bool:
        return Lineage("bernoulli", made, probability=_nice(float(s.mean())))
    if bool((s.abs() == 1).all()):
        return Lineage("signs", made)
    if not t.is_floating_point() or bool((s == s.round()).all()):
        return Lineage("integer", made, low=look.lowest, high=look.highest + 1)
    mean, std = float(s.mean()), float(s.std())
    fourth = float((((s - mean) / std) ** 4).mean())
    third = float((((s - mean) / std) ** 3).mean())
    error = _SURE / math.sqrt(s.numel())
    if abs(third) < error * math.sqrt(6) + 0.02 and abs(fourth - 3) < error * math.sqrt(24) + 0.05:
        small = abs(mean) < _SURE * std / math.sqrt(s.numel())
        return Lineage("normal", made, mean=0.0 if small else _nice(mean), std=_nice(std))
    if abs(third) < error * math.sqrt(6) + 0.02 and abs(fourth - 1.8) < error * 2 + 0.02:
        low, high = _nice(look.lowest), _nice(look.highest)
        if low <= look.lowest + 1e-3 * (high - low) and high >= look.highest - 1e-3 * (high - low):
            return Lineage("uniform", made, low=min(low, look.lowest), high=max(high, look.highest))
    return None


def _is_index_like(t: torch.Tensor) -> bool:
    return not t.is_floating_point() and t.dtype != torch.bool


def _spell(guess: Lineage, t: torch.Tensor) -> dict[str, Any]:
    if guess.kind == "uniform":
        return {"distribution": "uniform", "low": guess.low, "high": guess.high}
    if guess.kind == "normal":
        return {"distribution": "normal", "mean": guess.mean, "std": guess.std}
    if guess.kind == "integer" and t.dtype == torch.bool:
        return {"distribution": "bernoulli", "probability": 1 - 1 / (guess.high - guess.low)}
    if guess.kind == "integer":
        return {"distribution": "integer", "low": int(guess.low), "high": int(guess.high)}
    if guess.kind == "bernoulli":
        return {"distribution": "bernoulli", "probability": guess.probability}
    if guess.kind == "constant":
        return {"distribution": "constant", "value": guess.value}
    return {"distribution": guess.kind}


def _describe(look: _Look) -> str:
    s = look.sample
    return (
        f"mean {float(s.mean()):.4g}, standard deviation {float(s.std(correction=0)):.4g}, "
        f"{look.lowest:.4g} to {look.highest:.4g}"
    )


def _recognize(where: str, looks: list[_Look], t: torch.Tensor) -> tuple[Lineage, set[str]]:
    facts = set.intersection(*(look.facts for look in looks))
    last = looks[-1]
    if not math.isfinite(last.lowest) or not math.isfinite(last.highest):
        raise Refused(f"{where} has values that are not finite; a task's inputs must be finite")
    guess = last.lineage if all(look.lineage == last.lineage for look in looks) else None
    if guess is not None and not all(_agrees(look, guess, t) for look in looks):
        raise Refused(
            f"{where} was made by {guess.made}, but its values ({_describe(last)}) are not those of "
            f"{guess.kind}; use one of rand, randn, randint as it is, or scaled"
        )
    if guess is None:
        guess = _guess(last, t)
        if guess is not None and not all(_agrees(look, guess, t) for look in looks):
            guess = None
    if guess is None:
        raise Refused(
            f"{where}: its values ({_describe(last)}) are of no distribution that a task can have "
            "(uniform, normal, integer, bernoulli, signs, simplex, constant)"
        )
    if (
        guess.kind != "constant"
        and last.sample.numel() > 1
        and all(look.digest == last.digest for look in looks)
    ):
        raise Refused(
            f"{where} is the same for every seed, but not one number; make it a buffer of Model, which "
            "belongs to the task"
        )
    if guess.kind == "simplex":
        facts.add("non_negative")
    if guess.kind == "constant":
        facts = set()
    return guess, facts


def draw_inputs(loaded: Loaded, flatten: Any) -> tuple[list[Any], list[Drawn]]:
    """The arguments of forward, as the problem gives them, and how each tensor among them is drawn. `flatten`
    returns the leaves of such arguments."""
    looks: list[list[_Look]] = []
    numbers: list[Any] = []
    arguments: list[Any] = []
    for seed in SEEDS:
        arguments = []  # frees those of the last seed, which may be gigabytes
        recorder = Recorder()
        with recorder:
            arguments = loaded.inputs(seed)
        leaves = flatten(arguments)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        plain = [repr(leaf) if not isinstance(leaf, torch.Tensor) else tuple(leaf.shape) for leaf in leaves]
        if numbers and numbers != plain:
            raise Refused("get_inputs gives other numbers or shapes with another seed; a task's are fixed")
        numbers = plain
        looks.append([_look(t, recorder.of(t)) for t in tensors])
    tensors = [leaf for leaf in flatten(arguments) if isinstance(leaf, torch.Tensor)]
    storages = {t.untyped_storage().data_ptr() for t in tensors if t.numel()}
    if len(storages) < len([t for t in tensors if t.numel()]):
        raise Refused(
            "two of its inputs share memory; a task draws each input on its own (clone one of them)"
        )
    drawn = []
    for i, t in enumerate(tensors):
        where = f"input {i} of get_inputs"
        if t.numel() == 0:
            raise Refused(f"{where} has no elements")
        if t.is_complex() or t.is_sparse or t.is_quantized:
            raise Refused(f"{where} is {t.dtype}, {t.layout}; a task has dense numbers")
        guess, facts = _recognize(where, [one[i] for one in looks], t)
        drawn.append(Drawn(t, _spell(guess, t), sorted(facts)))
    return arguments, drawn
