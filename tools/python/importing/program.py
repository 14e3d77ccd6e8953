"""The program that an import makes: values and ATen steps, each step's arguments by its schema's names."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator

import torch
from torch._subclasses.fake_tensor import FakeTensorMode


@dataclasses.dataclass(eq=False)
class Value:
    """A tensor of the program. `fake` has its type; `data` its numbers if they belong to the task."""

    name: str
    fake: torch.Tensor
    kind: str = "step"  # input, weight, constant, step
    data: torch.Tensor | None = None
    target: str = ""  # a weight's name in the module
    part: str = ""  # of a complex tensor there: real, imag
    quantiles: list[float] = dataclasses.field(default_factory=list)  # of a step's result (quantiles.py), if known


@dataclasses.dataclass(eq=False)
class Step:
    op: torch._ops.OpOverload
    args: dict[str, Any]  # tensors are Values; what is left out has its default
    outs: list[Value | None]  # None for a result that is not read
    where: str = ""  # " (line 12: `y = self.net(x)`)", of the user's file
    calls: tuple | None = None  # of modules, that it is made in (modules.py); None: the importer added it

    @property
    def name(self) -> str:
        return op_name(self.op)

    def reads(self) -> Iterator[Value]:
        for arg in self.args.values():
            yield from values_in(arg)

    def replace(self, change: Callable[[Value], Value]) -> None:
        self.args = {k: map_values(v, change) for k, v in self.args.items()}

    def call(self, of: Callable[[Value], torch.Tensor]) -> list[torch.Tensor]:
        """Runs it; `of` gives a value's tensor."""
        out = call_by_schema(self.op, {k: map_values(v, of) for k, v in self.args.items()})
        return list(out) if isinstance(out, (tuple, list)) else [out]


@dataclasses.dataclass
class Rewritings:
    """Of a program, as far as they were checked (rewriting_check.py)."""

    checked: int = 0
    unchecked: list[str] = dataclasses.field(default_factory=list)  # what could not be run: names, with lines
    known: dict[str, bool] = dataclasses.field(default_factory=dict)  # what was run, and whether it gave the same
    kept: list[torch.Tensor] = dataclasses.field(default_factory=list)  # constants that `known` speaks of


@dataclasses.dataclass
class Program:
    inputs: list[Value]
    weights: list[Value]  # and constants, whose values belong to the definition
    steps: list[Step]
    outputs: list[Value]
    mode: FakeTensorMode
    # In what forward returns them: places among the outputs in lists, tuples and dicts.
    returns: Any = None
    # The names of modules in training and in evaluation mode, where that matters (modes.py).
    modes: dict[str, list[str]] | None = None
    rounds: bool = False  # complex numbers are computed as pairs, in another order
    cpu_casts: bool = False  # it was recorded under the autocast of a CPU
    unlike_cpu: bool = False  # it was recorded under the autocast of a GPU, which casts otherwise than a CPU's
    fitted: Any = None  # what the rules asked for (rules.py)
    rewritings: Rewritings = dataclasses.field(default_factory=Rewritings)
    # What forward changes (state.py): first all of it, then what is kept and what is not.
    changes: list[Any] = dataclasses.field(default_factory=list)
    states: list[Any] = dataclasses.field(default_factory=list)
    dropped: list[str] = dataclasses.field(default_factory=list)
    transforms: set[int] = dataclasses.field(default_factory=set)  # lengths of Fourier transforms (fourier.py)
    chosen_rows: bool = False  # all rows are computed where the model computes some (masked_rows.py)
    where: Callable[[str], str] = lambda path: f"self.{path}"  # an attribute, with the line that changes it

    def step(self, op: torch._ops.OpOverload, args: dict[str, Any], name: str) -> Step:
        """A new step, not yet among `steps`, whose results have their types."""
        step = Step(op, args, [])
        with self.mode:
            results = step.call(lambda v: v.fake)
        step.outs = [Value(name if i == 0 else f"{name}_{i}", r) for i, r in enumerate(results)]
        return step

    def type_results(self, step: Step) -> bool:
        """Derives the results' types again, from operands of which some have another layout than when the step was
        made; true if a result has another layout too. A view of what was no view of it before becomes a reshape."""
        with self.mode:
            try:
                results = step.call(lambda v: v.fake)
            except (RuntimeError, ValueError):
                if step.op is not torch.ops.aten.view.default:
                    raise
                step.op = torch.ops.aten.reshape.default
                step.args = {"self": step.args["self"], "shape": step.args["size"]}
                results = step.call(lambda v: v.fake)
        changed = False
        for out, result in zip(step.outs, results):
            if out is not None and out.fake.stride() != result.stride():
                out.fake = result
                changed = True
        return changed

    def makers(self) -> dict[Value, Step]:
        return {out: step for step in self.steps for out in step.outs if out is not None}

    def drop_unused(self) -> None:
        needed = {*self.outputs, *(c.new for c in self.changes)}
        kept = []
        for step in reversed(self.steps):
            if any(out in needed for out in step.outs if out is not None):
                needed.update(step.reads())
                step.outs = [out if out in needed else None for out in step.outs]
                kept.append(step)
        self.steps = kept[::-1]
        needed.update(c.old for c in self.changes if c.old is not None)
        self.weights = [w for w in self.weights if w in needed]

    def substitute(self, mapping: dict[Value, Value]) -> None:
        """Replaces reads of a key by reads of its value, following chains. Both have the same elements; where strides
        differ, those of later steps follow."""

        def last(v: Value) -> Value:
            while v in mapping:
                v = mapping[v]
            return v

        for step in self.steps:
            step.replace(last)
        self.outputs = [last(v) for v in self.outputs]
        for change in self.changes:
            change.new = last(change.new)
        if any(v.fake.stride() != last(v).fake.stride() for v in mapping):
            self.type_steps()

    def type_steps(self) -> None:
        """type_results, for all of them in order."""
        for step in self.steps:
            self.type_results(step)


def call_by_schema(op: Any, args: dict[str, Any], function: Callable | None = None) -> Any:
    """An operator, or a `function` that stands for it, by the names of its schema's arguments. They are given by
    position: the Python function behind a composite operator may call them otherwise, or take a list as *tensors."""
    positional = [a for a in op._schema.arguments if not a.kwarg_only]
    while positional and positional[-1].name not in args:
        positional.pop()
    given = [args[a.name] if a.name in args else a.default_value for a in positional]
    named = {a.name: args[a.name] for a in op._schema.arguments if a.kwarg_only and a.name in args}
    return (function or op)(*given, **named)


def op_name(op: torch._ops.OpOverload) -> str:
    """As the format writes it: "aten::add.Tensor", "aten::relu"."""
    return op._schema.name + (f".{op._overloadname}" if op._overloadname != "default" else "")


def values_in(arg: Any) -> Iterator[Value]:
    if isinstance(arg, Value):
        yield arg
    elif isinstance(arg, (list, tuple)):
        for item in arg:
            yield from values_in(item)


def map_values(arg: Any, change: Callable[[Any], Any], kinds: Any = Value) -> Any:
    if isinstance(arg, kinds):
        return change(arg)
    if isinstance(arg, (list, tuple)):
        return [map_values(item, change, kinds) for item in arg]
    return arg


def may_share_memory(op: torch._ops.OpOverload) -> bool:
    """True if PyTorch declares that a result may be an argument's memory. aten::to is among these."""
    return any(r.alias_info is not None for r in op._schema.returns)


def is_view(step: Step) -> bool:
    """True if its results are elements of its operand, in its memory perhaps. A conversion to another type is not: there
    and back it changes the elements."""
    operand = next(step.reads(), None)
    types = {out.fake.dtype for out in step.outs if out is not None}
    return may_share_memory(step.op) and operand is not None and types == {operand.fake.dtype}
