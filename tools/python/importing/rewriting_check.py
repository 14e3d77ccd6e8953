"""Whether the rewriting of a program leaves its results as they are: what it changes is run before and after, on random
numbers. That needs neither the model nor the whole program, so that it is done for models that are too large to be
called, or that a GPU computes otherwise, too."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import torch

from .operators import kind_of
from .program import Program, Rewritings, Step, Value, map_values, values_in
from .refusal import Refused
from .replay import products, rounding_between, same

_MOST_ELEMENTS = 1 << 26  # of all values of a part that is run; a larger one counts as unchecked
_MANY_ELEMENTS = 1 << 20  # from here on the part is run with a smaller batch, if it has one
_MOST_PRODUCTS = 1e10
_MOST_PARTS = 64  # times that a part is made larger
# Arguments that change no result.
_SWITCHES = {"cudnn_enable", "cudnn_enabled", "device", "pin_memory", "layout", "non_blocking"}


class _Unchecked(Exception):
    """A part cannot be run here."""


class Definitions:
    """The steps of a program as they are at one moment."""

    def __init__(self, program: Program) -> None:
        self.steps = [Step(s.op, dict(s.args), list(s.outs), s.where) for s in program.steps]
        self.makers = {out: s for s in self.steps for out in s.outs if out is not None}
        self.place = {out: i for i, s in enumerate(self.steps) for out in s.outs if out is not None}
        self.outputs = list(program.outputs)
        self.changes = [c.new for c in program.changes]
        self.types = {v: v.fake for v in (*program.inputs, *program.weights, *self.makers)}

    def part(self, root: Value, stop: set[Value]) -> tuple[list[Step], set[Value]]:
        """The steps that make `root` of the values of `stop`, and what they read of these and of the program's own."""
        inside: set[int] = set()
        borders: set[Value] = set()
        waiting = [root]
        while waiting:
            v = waiting.pop()
            if v not in self.makers or (v in stop and v is not root):
                borders.add(v)
            elif self.place[v] not in inside:
                inside.add(self.place[v])
                waiting += self.makers[v].reads()
        return [self.steps[i] for i in sorted(inside)], borders

    def depends(self, v: Value, on: set[Value]) -> bool:
        first = min((self.place.get(u, -1) for u in on), default=-1)
        seen: set[Value] = set()
        waiting = list(self.makers[v].reads()) if v in self.makers else []
        while waiting:
            u = waiting.pop()
            if u in on:
                return True
            if u in self.makers and u not in seen and self.place[u] > first:
                seen.add(u)
                waiting += self.makers[u].reads()
        return False


def _arguments(step: Step) -> Iterator[Any]:
    """All that its schema has, but what changes no result."""
    for a in step.op._schema.arguments:
        if a.name not in _SWITCHES:
            yield step.args.get(a.name, a.default_value if a.has_default_value() else None)


def _same_argument(a: Any, b: Any) -> bool:
    """But for the tensors in them. A number stands for a list of it."""
    if isinstance(a, Value) or isinstance(b, Value):
        return isinstance(a, Value) and isinstance(b, Value)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same_argument, a, b))
    for row, one in ((a, b), (b, a)):
        if isinstance(row, (list, tuple)) and isinstance(one, int):
            return all(type(x) is type(one) and x == one for x in row)
    return type(a) is type(b) and a == b


def _random(v: Value, like: torch.Tensor, random: torch.Generator, wide: bool) -> torch.Tensor:
    if v.data is not None:
        return v.data
    shape, dtype = like.shape, like.dtype
    if dtype == torch.bool:
        return torch.rand(shape, generator=random) < 0.5
    if dtype.is_floating_point:
        # Large and small ones, so that what is lost by a conversion is seen.
        return (torch.randn(shape, generator=random) * 10).to(dtype)
    low, high = (0, 2) if not wide else (0, 200) if dtype == torch.uint8 else (-100, 100)
    return torch.randint(low, high, shape, generator=random).to(dtype)


def _laid_out(t: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """In the layout of the other, if that has a place for each element."""
    place = 1
    for stride, size in sorted(zip(like.stride(), like.shape)):
        if size != 1 and stride != place:
            return t
        place *= size
    return t if t.stride() == like.stride() else torch.empty_strided(like.shape, like.stride(), dtype=t.dtype).copy_(t)


class _Comparison:
    """Two moments of a program. Values that both have are equal until a step that makes one of them differs."""

    def __init__(self, before: Definitions, after: Definitions, rewritings: Rewritings) -> None:
        self.before, self.after, self.rewritings = before, after, rewritings
        self.proven: dict[tuple[Value, Value], bool] = {}
        self.unchecked: list[Step | None] = []

    def run(self) -> str:
        """Why they are not the same, "" if they are; see `unchecked`."""
        pairs = [(out, out) for step in self.after.steps for out in step.outs if out in self.before.makers]
        pairs += zip(self.before.outputs, self.after.outputs, strict=True)
        # Without the statistics that are not kept.
        pairs += [(a, b) for a, b in zip(self.before.changes, self.after.changes, strict=True) if b in self.after.types]
        for a, b in pairs:
            step = self.after.makers.get(b)
            try:
                if not self._equal(a, b):
                    return f"{b.name}{step.where if step else ''}"
            except _Unchecked:
                self.proven[a, b] = True  # the others are checked as if it were
                self.unchecked.append(step)
        return ""

    def _equal(self, a: Value, b: Value) -> bool:
        if (a, b) not in self.proven:
            self.proven[a, b] = self._by_operands(a, b) or self._by_values(a, b)
        return self.proven[a, b]

    def _by_operands(self, a: Value, b: Value) -> bool:
        """The same call, of equal operands."""
        p, q = self.before.makers.get(a), self.after.makers.get(b)
        if p is None or q is None:
            return a is b and p is q
        if p.op is not q.op or self._result(p, a) != self._result(q, b):
            return False
        if not all(map(_same_argument, _arguments(p), _arguments(q))):
            return False
        pairs = list(zip(self._values(p), self._values(q), strict=True))
        try:
            return all(self._equal(x, y) for x, y in pairs)
        except _Unchecked:
            if a is b:
                raise
            return False

    @staticmethod
    def _result(step: Step, v: Value) -> int:
        return next(i for i, out in enumerate(step.outs) if out is v)

    @staticmethod
    def _values(step: Step) -> list[Value]:
        return [v for arg in _arguments(step) for v in values_in(arg)]

    def _by_values(self, a: Value, b: Value) -> bool:
        expanded: set[Value] = set()
        for _ in range(_MOST_PARTS):
            stop = {v for (v, w), equal in self.proven.items() if equal and v is w and v not in expanded}
            old, own = self.before.part(a, stop)
            new, also = self.after.part(b, stop)
            borders = own | also
            if self._runs_alike(a, b, old, new, borders):
                self.rewritings.checked += 1
                return True
            # Numbers that belong together were drawn apart, or are such that no step would make them.
            inner = {v for v in borders if v in self.before.makers and v in self.after.makers}
            more = {v for v in inner if self.before.depends(v, borders - {v})} or inner
            if not more:
                return False
            expanded |= more
        raise _Unchecked

    def _runs_alike(self, a: Value, b: Value, old: list[Step], new: list[Step], borders: set[Value]) -> bool:
        order = sorted(borders, key=lambda v: (self.before.place.get(v, -1), v.name))
        text = _text(old, order, [a], self.before) + " -> " + _text(new, order, [b], self.after)
        known = self.rewritings.known
        if text not in known:
            types = ({v: own.types.get(v, v.fake) for v in order} for own in (self.before, self.after))
            whole = _Run(old, new, *types)
            runs = [run for run in (whole.with_less(), whole) if run is not None and run.can_be_run()]
            # Numbers of a narrow range may be indices.
            tries = (run.alike(a, b, wide) for run in runs for wide in (True, False))
            alike = next((found for found in tries if found is not None), None)
            if alike is None:
                raise _Unchecked
            self.rewritings.kept += [v.data for v in order if v.data is not None]
            known[text] = alike
        return known[text]


class _Run:
    """Two lists of steps on the same random numbers. `before`, `after`: the types of what they read."""

    def __init__(self, old: list[Step], new: list[Step], before: dict[Value, Any], after: dict[Value, Any]) -> None:
        self.old, self.new, self.before, self.after = old, new, before, after
        self.share = 1.0  # of the elements that the values have in the program
        values = [*before.values(), *(out.fake for s in (*old, *new) for out in s.outs if out is not None)]
        self.elements = sum(t.numel() for t in values)
        self.largest = max((t.shape for t in values if t.dim()), key=torch.Size.numel, default=torch.Size([1]))

    def can_be_run(self) -> bool:
        steps = [*self.old, *self.new]
        if any(torch.Tag.nondeterministic_seeded in s.op.tags for s in steps):
            return False
        return self.share * self.elements <= _MOST_ELEMENTS and self.share * sum(map(products, steps)) <= _MOST_PRODUCTS

    def with_less(self) -> _Run | None:
        """The same with two in the place of the largest tensor's first size; None if that is no use."""
        first = self.largest[0]
        if self.elements < _MANY_ELEMENTS or first < 3:
            return None

        def less(size: int) -> int:
            return size // first * 2 if size % first == 0 else size

        def smaller(t: torch.Tensor) -> torch.Tensor:
            size = (less(t.shape[0]), *t.shape[1:]) if t.dim() else t.shape
            if t.is_contiguous():
                return torch.empty(size, dtype=t.dtype, device="meta")
            return torch.empty_strided(size, t.stride(), dtype=t.dtype, device="meta")

        def changed(step: Step) -> Step:
            args = dict(step.args)
            for name in ("size", "shape"):
                if isinstance(args.get(name), (list, tuple)) and args[name]:
                    args[name] = [less(args[name][0]), *args[name][1:]]
            return Step(step.op, args, step.outs)

        if any(v.data is not None and smaller(t).shape != t.shape for v, t in self.before.items()):
            return None
        types = ({v: smaller(t) for v, t in own.items()} for own in (self.before, self.after))
        run = _Run([changed(s) for s in self.old], [changed(s) for s in self.new], *types)
        run.elements, run.share = self.elements, 2 / first
        return run

    def alike(self, a: Value, b: Value, wide: bool) -> bool | None:
        """None where an operator does not take the numbers."""
        random = torch.Generator().manual_seed(0)
        drawn = {v: _random(v, t, random, wide) for v, t in self.before.items()}
        try:
            expected = _computed(a, self.old, drawn, self.before)
            found = _computed(b, self.new, drawn, self.after)
        except (RuntimeError, IndexError, ValueError, NotImplementedError):
            return None
        if same(expected, found):
            return True
        # The same arithmetic gives the same bits, with conversions between, too.
        others = sorted(s.name for s in self.old if _computes(s)) != sorted(s.name for s in self.new if _computes(s))
        return others and rounding_between(found, expected) is not None


def _computes(step: Step) -> bool:
    return kind_of(step) not in ("view", "copy", "list")


def _computed(v: Value, steps: list[Step], drawn: dict[Value, torch.Tensor], types: dict[Value, Any]) -> torch.Tensor:
    known = {u: _laid_out(t, types[u]) for u, t in drawn.items()}
    for step in steps:
        for out, result in zip(step.outs, step.call(known.__getitem__)):
            if out is not None:
                known[out] = result
    return known[v]


def _text(steps: list[Step], borders: list[Value], results: list[Value], by: Definitions) -> str:
    """The part whatever its values are called, to know one that was run before."""
    names = {v: f"in{i}" for i, v in enumerate(borders)}
    lines = [f"{names[v]}:{t.dtype}{list(t.shape)}{t.stride()}" for v in borders for t in (by.types.get(v, v.fake),)]
    lines += [f"{names[v]}={id(v.data)}" for v in borders if v.data is not None]
    for step in steps:
        args = {k: map_values(arg, lambda v: names[v]) for k, arg in step.args.items()}
        lines.append(f"{step.name}{args}")
        for out in step.outs:
            if out is not None:
                names[out] = f"v{len(names)}"
    return "; ".join([*lines, *(names[v] for v in results)])


def checked(program: Program, rewrite: Callable[..., Any], *more: Any) -> Any:
    """rewrite(program, *more), which is refused if a result is another one afterwards."""
    before = Definitions(program)
    made = rewrite(program, *more)
    name = rewrite.__name__.strip("_").replace("_", " ")
    comparison = _Comparison(before, Definitions(program), program.rewritings)
    with torch.no_grad():
        wrong = comparison.run()
    program.rewritings.unchecked += [f"{name}{step.where if step else ''}" for step in comparison.unchecked]
    if wrong:
        raise Refused(
            f"the importer's rewriting ({name}) would change {wrong}, so that the task would compute something else than "
            "its model; please report it"
        )
    return made
