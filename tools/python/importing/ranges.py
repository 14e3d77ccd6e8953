"""Which values do not depend on what was computed before them: a clamp to a range that its input cannot
reach, a softmax over one element."""

from __future__ import annotations

from .operators import EVERYTHING, interval, kind_of, record_of
from .program import Program, Step, Value

def _number(x: object, otherwise: float) -> float:
    return float(x) if isinstance(x, (int, float)) else otherwise


def _range(step: Step, known: dict[Value, tuple[float, float]]) -> tuple[float, float]:
    own = step.args.get("self")
    low, high = known.get(own, EVERYTHING) if isinstance(own, Value) else EVERYTHING
    record = record_of(step)
    if "range" in record:
        return interval(record["range"])
    if "selects" in record:
        return low, high
    if "clips" in record:
        least, most = interval(record["clips"]["limits"])
        least = _number(step.args.get(record["clips"]["low"]), least)
        most = _number(step.args.get(record["clips"]["high"]), most)
        return min(max(low, least), most), min(max(high, least), most)
    return EVERYTHING


def _over_one(step: Step) -> bool:
    """True for a softmax over a dimension of size one, which is always 1, or its logarithm, always 0."""
    if kind_of(step) != "normalization" or "dim" not in step.args:
        return False
    return step.args["self"].fake.dim() > 0 and step.args["self"].fake.shape[step.args["dim"]] == 1


def undecided_by(program: Program) -> set[Value]:
    """The values that some output may depend on. Not among them is what is computed only for a value that is
    one known number for all finite inputs, nor the dropout of such a value, if that number is 0."""
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
