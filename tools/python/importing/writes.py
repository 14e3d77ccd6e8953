"""Writes into slices of a tensor, which torch.export gives as whole tensors that differ in a slice, as joins of parts."""

from __future__ import annotations

import dataclasses
from typing import Iterator

import torch

from .program import Program, Step, Value
from .refusal import Refused

aten = torch.ops.aten


@dataclasses.dataclass
class _Part:
    start: int  # along the dimension, in the whole
    stop: int
    source: Value
    at: int  # where `start` is in the source
    is_row: bool = False  # the source lacks the dimension

    def cut(self, start: int, stop: int) -> Iterator[_Part]:
        start, stop = max(start, self.start), min(stop, self.stop)
        if start < stop:
            yield _Part(start, stop, self.source, self.at + start - self.start, self.is_row)


@dataclasses.dataclass
class _Whole:
    dim: int
    parts: list[_Part]
    where: tuple  # line and calls of the step that makes it
    made: bool = False


def _range(step: Step, size: int) -> tuple[int, int, int]:
    """Start, stop and stride of a slice or of one index."""
    if step.op in (aten.select_scatter.default, aten.select.int):
        start = step.args["index"] % size
        return start, start + 1, 1
    return slice(step.args.get("start"), step.args.get("end"), step.args.get("step", 1)).indices(size)


class _Writes:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps: list[Step] = []
        self.wholes: dict[Value, _Whole] = {}  # values that are known by their parts
        self.same: dict[Value, Value] = {}  # what they turned out to be

    def run(self) -> None:
        for step in self.program.steps:
            step.replace(self._last)
            if step.op in (aten.slice_scatter.default, aten.select_scatter.default) and self._is_taken_apart(step):
                continue
            found = self._read_of_part(step)
            if found is not None:
                self.same[step.outs[0]] = found
                continue
            for v in list(step.reads()):
                self._make(v)
            step.replace(self._last)
            self.steps.append(step)
        for v in (*self.program.outputs, *(c.new for c in self.program.changes)):
            self._make(self._last(v))
        self.program.steps = self.steps
        self.program.substitute(self.same)
        if self.wholes:
            self.program.type_steps()

    def _last(self, v: Value) -> Value:
        while v in self.same:
            v = self.same[v]
        return v

    def _is_taken_apart(self, step: Step) -> bool:
        """Notes the parts of what a write makes; false if they do not lie together."""
        base, source, out = step.args["self"], step.args["src"], step.outs[0]
        dim = step.args.get("dim", 0) % base.fake.dim()
        size = base.fake.shape[dim]
        if source.fake.dtype != base.fake.dtype:
            raise Refused(f"it writes values of another dtype into a slice{step.where}; convert them with .to() first")
        start, stop, stride = _range(step, size)
        if stride != 1 or stop <= start or out is None:
            return False
        whole = self.wholes.get(base)
        if whole is None or whole.dim != dim or whole.made:
            self._make(base)
            base = self._last(base)
        parts = whole.parts if whole is not None and whole.dim == dim else [_Part(0, size, base, 0)]
        written = _Part(start, stop, source, 0, step.op is aten.select_scatter.default)
        kept = [p for part in parts for piece in ((0, start), (stop, size)) for p in part.cut(*piece)]
        self.wholes[out] = _Whole(dim, sorted([*kept, written], key=lambda p: p.start), (step.where, step.calls))
        return True

    def _read_of_part(self, step: Step) -> Value | None:
        """What a view of one part of a whole is a view of: `out[t - 1]` is what was written there."""
        if step.op not in (aten.select.int, aten.slice.Tensor):
            return None
        base, out = step.args["self"], step.outs[0]
        whole = self.wholes.get(base)
        if whole is None or whole.made or out is None or step.args.get("dim", 0) % base.fake.dim() != whole.dim:
            return None
        start, stop, stride = _range(step, base.fake.shape[whole.dim])
        inside = [p for part in whole.parts if part.start <= start and stop <= part.stop for p in part.cut(start, stop)]
        if stride != 1 or len(inside) != 1:
            return None
        if step.op is aten.slice.Tensor:
            return self._slice(inside[0], whole.dim, out.name, (step.where, step.calls))
        if inside[0].is_row:
            return inside[0].source
        source = self._made(inside[0].source)
        return self._add(
            aten.select.int, {"self": source, "dim": whole.dim, "index": inside[0].at}, out.name, (step.where, step.calls)
        )

    def _slice(self, part: _Part, dim: int, name: str, place: tuple) -> Value:
        """A part by itself."""
        source = self._made(part.source)
        if part.is_row:
            return self._add(aten.unsqueeze.default, {"self": source, "dim": dim}, name, place)
        if part.at == 0 and part.stop - part.start == source.fake.shape[dim]:
            return source
        given = {"self": source, "dim": dim, "start": part.at, "end": part.at + part.stop - part.start}
        return self._add(aten.slice.Tensor, given, name, place)

    def _add(self, op: torch._ops.OpOverload, args: dict, name: str, place: tuple) -> Value:
        step = self.program.step(op, args, name)
        step.where, step.calls = place
        self.steps.append(step)
        return step.outs[0]

    def _made(self, value: Value) -> Value:
        self._make(value)
        return self._last(value)

    def _make(self, value: Value) -> None:
        """Adds the step that makes a value of its parts, if that was not done."""
        whole = self.wholes.get(value)
        if whole is None or whole.made:
            return
        whole.made = True
        pieces = [self._slice(p, whole.dim, f"{value.name}_{i}", whole.where) for i, p in enumerate(whole.parts)]
        if len(pieces) == 1:
            self.same[value] = pieces[0]
            return
        step = self.program.step(aten.cat.default, {"tensors": pieces, "dim": whole.dim}, value.name)
        step.outs, value.fake, (step.where, step.calls) = [value], step.outs[0].fake, whole.where
        self.steps.append(step)


def writes_as_joins(program: Program) -> None:
    """`out[:, a:b] = x`, once it is functional. A tensor that a loop writes row by row is one join."""
    _Writes(program).run()
