"""Models that take too long to be called here: compared on a part of their batch, with which they are recorded again."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import torch

from . import replay
from .program import Program, Step, Value
from .refusal import Refused


def _parts_of(arguments: list[Any], share: float) -> Iterator[tuple[list[Any], int, int]]:
    """Arguments with fewer of the batch, how many, and of how many: of all tensors that have the first one's batch, and
    of the first alone."""
    tensors = [t for t in replay.tensors_in(arguments) if t.dim()]
    if not tensors or tensors[0].shape[0] < 2:
        return
    size = tensors[0].shape[0]
    fewer = min(max(1, int(size * share)), size // 2)
    for some in ([t for t in tensors if t.shape[0] == size], tensors[:1]):
        places = {id(t) for t in some}
        yield torch.utils._pytree.tree_map(lambda x: x[:fewer] if id(x) in places else x, arguments), fewer, size


def _same_but_for_sizes(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same_but_for_sizes, a, b))
    if isinstance(a, Value) and isinstance(b, Value):
        return a.name == b.name and a.fake.dtype == b.fake.dtype
    if isinstance(a, bool) or not isinstance(a, int):
        return type(a) is type(b) and a == b
    return isinstance(b, int) and not isinstance(b, bool)


def _same_arguments(a: Step, b: Step) -> bool:
    """Numbers that tensors are computed with are the same."""
    numbers = [x.name for x in a.op._schema.arguments if "number" in str(x.type)]
    others = ([(k, v) for k, v in s.args.items() if k not in numbers or isinstance(v, Value)] for s in (a, b))
    return all(a.args.get(k) == b.args.get(k) for k in numbers) and _same_but_for_sizes(*others)


def is_same_program(a: Program, b: Program) -> bool:
    """Whether they are made of the same steps, in tensors of other sizes perhaps."""
    if [s.op for s in a.steps] != [s.op for s in b.steps] or a.returns != b.returns:
        return False
    return all(map(_same_arguments, a.steps, b.steps)) and all(map(_same_but_for_sizes, (a.inputs, a.weights, a.outputs), (b.inputs, b.weights, b.outputs)))


def check(
    program: Program,
    record: Callable[[list[Any]], Program],
    model: Callable[[], torch.nn.Module],
    arguments: list[Any],
    limit_s: float,
) -> tuple[replay.Checked, str]:
    """As replay.check does, with a part of the batch; "2 of 16", or "" where there is none. `record`: the task's program
    of the model, with these arguments; `model`: a fresh one."""
    nothing = replay.Checked(0, 0.0, [], [])
    if limit_s <= 0 or program.states:  # what is kept has the size of the batch
        return nothing, ""
    for given, fewer, size in _parts_of(arguments, limit_s / replay.seconds_of_check(program)):
        try:
            other = record(given)
        except Refused:
            continue  # its forward names the size of its batch
        if not is_same_program(program, other):
            continue
        checked = replay.check(other, model(), given, limit_s)
        if checked.calls:
            for step, small in zip(program.steps, other.steps):
                for v, w in zip(step.outs, small.outs):
                    if v is not None and w is not None:
                        v.quantiles = w.quantiles
            return checked, f"{fewer} of {size}"
    return nothing, ""
