"""Which values are the same whatever was computed before them: a clamp above what reaches it, a softmax
over one."""

from __future__ import annotations

import math

from .program import Program, Step, Value

_EVERYTHING = (-math.inf, math.inf)
_FIXED_RANGES = {
    "aten::sigmoid": (0.0, 1.0),
    "aten::tanh": (-1.0, 1.0),
    "aten::softmax.int": (0.0, 1.0),
    "aten::_softmax": (0.0, 1.0),
    "aten::hardsigmoid": (0.0, 1.0),
    "aten::abs": (0.0, math.inf),
    "aten::exp": (0.0, math.inf),
    "aten::square": (0.0, math.inf),
}
_KEEPS_RANGE = {
    "aten::view",
    "aten::reshape",
    "aten::permute",
    "aten::transpose.int",
    "aten::unsqueeze",
    "aten::squeeze.dim",
    "aten::squeeze",
    "aten::expand",
    "aten::contiguous",
    "aten::clone",
    "aten::slice.Tensor",
    "aten::select.int",
    "aten::flatten.using_ints",
    "aten::max_pool2d",
    "aten::max_pool3d",
    "aten::max_pool1d",
    "aten::amax",
    "aten::amin",
    "aten::max",
    "aten::min",
}


def _number(x: object, otherwise: float) -> float:
    return float(x) if isinstance(x, (int, float)) else otherwise


def _range(step: Step, known: dict[Value, tuple[float, float]]) -> tuple[float, float]:
    own = step.args.get("self")
    low, high = known.get(own, _EVERYTHING) if isinstance(own, Value) else _EVERYTHING
    name = step.name
    if name in _FIXED_RANGES:
        return _FIXED_RANGES[name]
    if name in _KEEPS_RANGE:
        return low, high
    if name == "aten::relu":
        return max(low, 0.0), max(high, 0.0)
    if name in (
        "aten::clamp",
        "aten::clip",
        "aten::clamp_min",
        "aten::clamp_max",
        "aten::hardtanh",
        "aten::relu6",
    ):
        narrow = {"aten::hardtanh": (-1.0, 1.0), "aten::relu6": (0.0, 6.0)}.get(name, _EVERYTHING)
        least = _number(step.args.get("min", step.args.get("min_val")), narrow[0])
        most = _number(step.args.get("max", step.args.get("max_val")), narrow[1])
        return min(max(low, least), most), min(max(high, least), most)
    return _EVERYTHING


def _over_one(step: Step) -> bool:
    """A softmax of a dimension of one: 1 whatever comes in, and its logarithm 0."""
    if step.name not in (
        "aten::softmax.int",
        "aten::_softmax",
        "aten::log_softmax.int",
        "aten::_log_softmax",
    ):
        return False
    return step.args["self"].fake.dim() > 0 and step.args["self"].fake.shape[step.args["dim"]] == 1


def undecided_by(program: Program) -> set[Value]:
    """The values that some output may depend on. What comes before a value that is one known number for all
    finite inputs is not among them, and neither is the dropout of such a value, where that number is 0."""
    known: dict[Value, tuple[float, float]] = {}
    decided: set[Value] = set()
    for step in program.steps:
        low, high = _range(step, known)
        own = step.args.get("self", step.args.get("input"))
        zero = isinstance(own, Value) and own in decided and known.get(own) == (0.0, 0.0)
        if zero and step.name in ("aten::dropout", "aten::feature_dropout"):
            low = high = 0.0
        for out in step.outs:
            if out is None:
                continue
            known[out] = (low, high)
            if low == high or _over_one(step):
                decided.add(out)
    needed = {v for v in program.outputs if v not in decided}
    for step in reversed(program.steps):
        if any(out in needed for out in step.outs if out is not None):
            needed.update(v for v in step.reads() if v not in decided)
    return needed
