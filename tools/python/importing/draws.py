"""How an input is drawn, and what is always true of it: inferred from get_inputs with several seeds."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

from . import unsupported
from .lineage import Lineage, Recorder
from .refusal import Refused
from .source import SEED, Loaded
from .weights import DTYPES, dtype_name

SEEDS = (SEED + 1, SEED + 2, SEED)  # the last one's tensors are kept: they are KernelBench's
_SAMPLE = 1 << 20  # elements that are looked at
_REFUSED_IN_ERROR = 1e-9  # how often a test says that values are not of the distribution that they are of
_LEAST_TO_GUESS = 1000  # elements
LOOKS_LIKE = "what its values look like"  # in place of how they were made
RECORDED_DRAWS = 8
RECORDED_BYTES = 128 << 20  # of all inputs of a task that are recorded


@dataclasses.dataclass
class Drawn:
    """One tensor of get_inputs."""

    tensor: torch.Tensor
    draw: dict[str, Any]
    facts: list[str]
    # Of an input of no known distribution: what get_inputs gave, `tensor` first. `fixed`: nothing else is ever drawn.
    recorded: list[torch.Tensor] = dataclasses.field(default_factory=list)
    fixed: bool = False
    same: bool = False  # whatever the seed


@dataclasses.dataclass
class _Look:
    """What one seed's tensor looks like."""

    lineage: Lineage | None
    factor: float  # that all values of this draw have
    facts: set[str]
    sample: torch.Tensor  # float64, of the elements that the facts leave free
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


def _look(t: torch.Tensor, lineage: Lineage | None, factor: float) -> _Look:
    with torch.no_grad():
        facts = _matrix_facts(t)
        if _is_one_hot(t):
            facts.add("one_hot")
        # Of a one-hot row, where its one is.
        sample = t.argmax(-1).reshape(-1)[:_SAMPLE].double() if "one_hot" in facts else _free_elements(t, facts)
        lowest, highest = (float(x) for x in ((t.all(), t.any()) if t.dtype == torch.bool else t.aminmax()))
    return _Look(lineage, factor, facts, sample, lowest, highest)


def _nice(x: float) -> float:
    """Rounded to the digits that a sample can determine."""
    return float(f"{x:.3g}")


def _follows(sample: torch.Tensor, below: Any, up_to: Any, blur: torch.Tensor | float) -> bool:
    """Whether independent values may be of a distribution: `below(x)` and `up_to(x)` say how much of it lies below x,
    without and with x itself. By the inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's constant (1990) the
    share of n values up to any x is further than e from the distribution's with probability 2 exp(-2 n e^2) at most,
    for any n and any distribution. `blur`: how far rounding may have moved a value."""
    x, order = sample.sort()
    if isinstance(blur, torch.Tensor):
        blur = blur[order]
    n = x.numel()
    allowed = math.sqrt(math.log(2 / _REFUSED_IN_ERROR) / (2 * n)) + 1e-9
    share = torch.arange(n + 1, dtype=torch.float64) / n
    too_many = share[1:] - up_to(x + blur)
    too_few = below(x - blur) - share[:-1]
    return float(too_many.max()) <= allowed and float(too_few.max()) <= allowed


def _is_even(places: torch.Tensor, count: float) -> bool:
    """Whether whole numbers may be even on 0 to count - 1."""
    return _follows(
        places, lambda x: (x / count).clamp(0, 1), lambda x: ((x + 1) / count).clamp(0, 1), 0.0
    )


def _coarseness(guess: Lineage, s: torch.Tensor, size: float) -> torch.Tensor | float:
    """How far values that a factory made may be from normal ones. PyTorch makes those from pairs of uniform values of the
    same type (Box and Muller), of which bfloat16 has 256: of 176 values one is zero."""
    if guess.made == LOOKS_LIKE:
        return 0.0
    return guess.std * math.sqrt(size) + math.pi * size * (s - guess.mean).abs()


def _agrees(look: _Look, guess: Lineage, t: torch.Tensor) -> bool:
    """`t`: the tensor that was looked at last, or one like it."""
    s, size = look.sample, torch.finfo(t.dtype).eps if t.is_floating_point() else 0.0
    if "one_hot" in look.facts:
        return _is_even(s, t.shape[-1])
    if guess.has_factor and guess.kind != "simplex":
        if look.factor == 0:
            return look.lowest == look.highest == 0
        s, size = s / look.factor, 2 * size  # two roundings
    if guess.kind == "uniform":
        blur = size * max(abs(guess.low), abs(guess.high))
        share = lambda x: ((x - guess.low) / (guess.high - guess.low)).clamp(0, 1)  # noqa: E731
        inside = float(s.min()) >= guess.low - blur and float(s.max()) <= guess.high + blur
        return inside and _follows(s, share, share, blur)
    if guess.kind == "normal":
        share = lambda x: torch.special.ndtr((x - guess.mean) / guess.std)  # noqa: E731
        return _follows(s, share, share, size * s.abs() + _coarseness(guess, s, size))
    if guess.kind == "integer":
        count = round((guess.high - guess.low) / guess.step)
        places = ((s - guess.low) / guess.step).round()
        off = (s - (guess.low + guess.step * places)).abs() > 2 * size * s.abs()
        return not bool(off.any()) and 0 <= float(places.min()) <= float(places.max()) < count and _is_even(places, count)
    if guess.kind == "bernoulli":
        rest = 1 - guess.probability
        share = lambda x, zero, one: rest * zero.double() + guess.probability * one.double()  # noqa: E731
        return bool(((s == 0) | (s == 1)).all()) and _follows(
            s, lambda x: share(x, x > 0, x > 1), lambda x: share(x, x >= 0, x >= 1), 0.0
        )
    if guess.kind == "simplex":
        rows = t.double().sum(-1)
        return look.lowest >= 0 and bool(((rows - 1).abs() < max(1e-3, 4 * size)).all())
    return look.lowest == look.highest == guess.value  # constant


def _guess(look: _Look, t: torch.Tensor) -> Lineage | None:
    """From the values alone."""
    s = look.sample
    made = LOOKS_LIKE
    if look.lowest == look.highest:
        return Lineage("constant", made, value=look.lowest)
    if "one_hot" in look.facts:
        return Lineage("integer", made, low=0, high=2)
    if s.numel() < _LEAST_TO_GUESS:
        return None
    if t.dtype == torch.bool:
        return Lineage("bernoulli", made, probability=_nice(float(s.mean())))
    if bool((s.abs() == 1).all()):
        return Lineage("integer", made, low=-1, high=3, step=2)
    if not t.is_floating_point() or bool((s == s.round()).all()):
        return Lineage("integer", made, low=look.lowest, high=look.highest + 1)
    mean, std = float(s.mean()), float(s.std())
    fourth = float((((s - mean) / std) ** 4).mean())
    third = float((((s - mean) / std) ** 3).mean())
    error = 6 / math.sqrt(s.numel())  # what is guessed here is tested after that
    if abs(third) < error * math.sqrt(6) + 0.02 and abs(fourth - 3) < error * math.sqrt(24) + 0.05:
        small = abs(mean) < error * std
        return Lineage("normal", made, mean=0.0 if small else _nice(mean), std=_nice(std))
    if abs(third) < error * math.sqrt(6) + 0.02 and abs(fourth - 1.8) < error * 2 + 0.02:
        low, high = _nice(look.lowest), _nice(look.highest)
        if low <= look.lowest + 1e-3 * (high - low) and high >= look.highest - 1e-3 * (high - low):
            return Lineage("uniform", made, low=min(low, look.lowest), high=max(high, look.highest))
    return None


def _whole(x: float) -> bool:
    return x == round(x)


def _is_spelled(guess: Lineage) -> bool:
    """Whether a task has words for it."""
    if guess.kind != "integer":
        return True
    signs = (guess.low, guess.high, guess.step) == (-1, 3, 2)
    return signs or (guess.step == 1 and _whole(guess.low))


def _spell(guess: Lineage, t: torch.Tensor) -> dict[str, Any]:
    if guess.kind == "simplex":
        draw: dict[str, Any] = {"distribution": "simplex"}
        of = guess.of
        if of is not None and (of.kind, of.mean, of.std, of.has_factor) != ("normal", 0.0, 1.0, False):
            draw["of"] = _spell(of, t)
        return draw
    if guess.kind in ("uniform", "normal"):
        names = ("low", "high") if guess.kind == "uniform" else ("mean", "std")
        draw = {"distribution": guess.kind, **{name: getattr(guess, name) for name in names}}
        if guess.has_factor:
            draw["factor"] = {"low": guess.factor_low, "high": guess.factor_high}
        return draw
    if guess.kind == "integer" and t.dtype == torch.bool:
        return {"distribution": "bernoulli", "probability": 1 - 1 / (guess.high - guess.low)}
    if guess.kind == "integer" and guess.step == 2:
        return {"distribution": "signs"}
    if guess.kind == "integer":
        return {"distribution": "integer", "low": int(guess.low), "high": int(guess.high)}
    if guess.kind == "bernoulli":
        return {"distribution": "bernoulli", "probability": guess.probability}
    return {"distribution": "constant", "value": guess.value}


def _rounded(x: float) -> float:
    return float(f"{x:.6g}")


def like_recorded(tensors: list[torch.Tensor]) -> tuple[dict[str, Any], bool]:
    """How the draws that leave the declared distribution are made where that is a record, and whether there are any:
    whole numbers may be indices that must not meet twice, so nothing but what was recorded is ever given."""
    t = tensors[0]
    if t.dtype == torch.bool:
        return {"distribution": "bernoulli", "probability": 0.5}, True
    lowest = min(float(x.min()) for x in tensors)
    highest = max(float(x.max()) for x in tensors)
    if not t.is_floating_point():
        return {"distribution": "integer", "low": int(lowest), "high": int(highest) + 1}, True
    values = t.double()
    std = float(values.std(correction=0)) or 1.0
    draw = {"distribution": "normal", "mean": _rounded(float(values.mean())), "std": _rounded(std)}
    return {**draw, "min": lowest, "max": highest}, False


def draw_of_state(values: list[torch.Tensor]) -> Drawn:
    """Of what a model keeps: what it had before some calls, and values like that."""
    t = values[0].contiguous()
    count = max(1, min(RECORDED_DRAWS, RECORDED_BYTES // max(1, t.numel() * t.element_size())))
    kept = [v for v in values[:count] if not v.is_floating_point() or bool(v.isfinite().all())] or [t]
    if not t.is_floating_point():
        return Drawn(t, like_recorded(kept)[0], [], [v.contiguous() for v in kept])
    every = torch.cat([v.reshape(-1) for v in kept]).double()
    mean, std = float(every.mean()), float(every.std(correction=0))
    draw = {"distribution": "normal", "mean": _rounded(mean), "std": _rounded(std) or 0.5}
    # A variance, a count: something may be made of it that is defined there alone.
    if float(every.max()) > 0 <= float(every.min()):
        draw["min"] = 0.0
    return Drawn(t, draw, [], [v.contiguous() for v in kept])


def _is_structured(t: torch.Tensor) -> bool:
    """Of values that are the same for every seed: whether they may mean what other values would not (positions, a mask,
    offsets, a grid) rather than stand for any values."""
    if not t.is_floating_point() or bool((t == t.round()).all()):
        return bool((t != t.reshape(-1)[0]).any())
    return t.dim() > 0 and t.shape[-1] > 3 and bool((t.diff(dim=-1) >= 0).all())


def _recognize(where: str, looks: list[_Look], t: torch.Tensor) -> tuple[Lineage | None, set[str]]:
    """The distribution, where the way that it was made or the values say one; and the facts."""
    facts = set.intersection(*(look.facts for look in looks))
    last = looks[-1]
    if not math.isfinite(last.lowest) or not math.isfinite(last.highest):
        raise Refused(
            f"{where} has values that are not finite, and a task's inputs are: give a mask as bool, and fill in the "
            "infinities in forward (masked_fill)"
        )
    same = last.sample.numel() > 1 and all(torch.equal(look.sample, last.sample) for look in looks)
    made = last.lineage if all(look.lineage == last.lineage for look in looks) else None
    guess = None
    for candidate in (made, None if same and _is_structured(t) else _guess(last, t)):
        if candidate is not None and _is_spelled(candidate) and all(_agrees(look, candidate, t) for look in looks):
            guess = candidate
            break
    if guess is not None and guess.kind == "simplex":
        facts.add("non_negative")
    if guess is not None and guess.kind == "constant":
        facts = set()
    return guess, facts


def _record(loaded: Loaded, flatten: Any, drawn: list[Drawn]) -> None:
    """Keeps some draws of the inputs whose distribution is not known, and says how others are made."""
    places = [i for i, d in enumerate(drawn) if not d.draw]
    if not places:
        return
    size = sum(drawn[i].tensor.numel() * drawn[i].tensor.element_size() for i in places)
    count = min(RECORDED_DRAWS, RECORDED_BYTES // size)
    if count < 2:
        raise Refused(
            f"input {places[0]} of get_inputs is of no distribution that a task can have (uniform, normal, integer, "
            f"bernoulli, signs, simplex, constant), and a draw is too large to be recorded ({size >> 20} MiB; "
            f"{RECORDED_DRAWS} draws of at most {RECORDED_BYTES >> 20} MiB together are kept, and two at least); use "
            "rand, randn or randint, as it is or scaled"
        )
    for i in places:
        drawn[i].recorded = [drawn[i].tensor]
    for seed in range(SEED + 3, SEED + 2 + count):
        tensors = [leaf for leaf in flatten(loaded.inputs(seed)) if isinstance(leaf, torch.Tensor)]
        for i in places:
            if not drawn[i].same:
                drawn[i].recorded.append(tensors[i])
    for i in places:
        held = [_look(t, None, 1.0).facts for t in drawn[i].recorded]
        drawn[i].facts = sorted(set(drawn[i].facts).intersection(*held))
        drawn[i].draw, drawn[i].fixed = like_recorded(drawn[i].recorded)
        drawn[i].fixed |= drawn[i].same and _is_structured(drawn[i].tensor)


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
        for i, t in enumerate(tensors):
            unsupported.check_dense(f"input {i} of get_inputs", t)
        plain = [repr(leaf) if not isinstance(leaf, torch.Tensor) else tuple(leaf.shape) for leaf in leaves]
        if numbers and numbers != plain:
            raise Refused("get_inputs gives other numbers or shapes with another seed; a task's are fixed")
        numbers = plain
        for i, t in enumerate(tensors):
            _check_kind(f"input {i} of get_inputs", t)
        looks.append([_look(t, *recorder.of(t)) for t in tensors])
    tensors = [leaf for leaf in flatten(arguments) if isinstance(leaf, torch.Tensor)]
    storages = {t.untyped_storage().data_ptr() for t in tensors}
    if len(storages) < len(tensors):
        raise Refused(
            "two of its inputs share memory; a task draws each input on its own (clone one of them)"
        )
    drawn = []
    for i, t in enumerate(tensors):
        guess, facts = _recognize(f"input {i} of get_inputs", [one[i] for one in looks], t)
        same = all(torch.equal(one[i].sample, looks[-1][i].sample) for one in looks)
        drawn.append(Drawn(t, _spell(guess, t) if guess is not None else {}, sorted(facts), same=same))
    _record(loaded, flatten, drawn)
    return arguments, drawn


def _check_kind(where: str, t: torch.Tensor) -> None:
    if t.numel() == 0:
        raise Refused(
            f"{where} has no elements, and a task's inputs have some: make it in forward (x.new_zeros), or leave it out"
        )
    if t.layout != torch.strided or t.is_quantized:
        raise Refused(f"{where} is {t.dtype}, {t.layout}; a task has dense numbers")
    if t.dtype not in DTYPES:
        raise Refused(
            f"{where} is {dtype_name(t.dtype)}; a task's tensors are {', '.join(map(dtype_name, DTYPES))}: convert it "
            "in get_inputs, or give it as one of these and convert it in forward"
        )
