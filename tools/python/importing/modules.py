"""Which calls of the model's modules a program's steps come from."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import torch

from .program import Program, Step, Value, map_values, op_name
from .weights import dtype_name


@dataclasses.dataclass(frozen=True)
class Call:
    key: str  # of one call: "layers.0@1" is the second one of layers.0
    path: str
    kind: str  # its class


def calls_around(node: torch.fx.Node) -> tuple[Call, ...]:
    """The calls that a node is made in, the outermost first, without that of the model itself."""
    stack = node.meta.get("nn_module_stack") or {}
    calls = (Call(key, path, kind.rpartition(".")[2]) for key, (path, kind) in stack.items())
    return tuple(call for call in calls if call.path)


def calls_of(program: Program) -> list[dict[str, Any]]:
    """As a task's origin has them, in the order of their first steps, an outer one before those in it. `like`: the
    place of an earlier call that does the same with other tensors."""
    stacks = _stacks(program)
    found: list[dict[str, Any]] = []
    forms: dict[str, int] = {}
    for first, stack in enumerate(stacks):
        for depth, call in enumerate(stack):
            if first > 0 and call in stacks[first - 1][: depth + 1]:
                continue
            count = next(
                (i for i, later in enumerate(stacks[first:]) if call not in later), len(stacks) - first
            )
            entry = {"path": call.path, "kind": call.kind, "first": first, "count": count}
            form = call.kind + _form(program.steps[first : first + count])
            if form in forms:
                entry["like"] = forms[form]
            forms.setdefault(form, len(found))
            found.append(entry)
    return found


def _stacks(program: Program) -> list[tuple[Call, ...]]:
    """Of each step; of one that the importer added: what those beside it have in common."""
    known = [step.calls for step in program.steps]
    stacks: list[tuple[Call, ...]] = []
    for i, calls in enumerate(known):
        if calls is None:
            before = stacks[-1] if stacks else ()
            after = next((c for c in known[i:] if c is not None), ())
            calls = tuple(c for c, d in zip(before, after) if c == d)
        stacks.append(calls)
    return stacks


def _form(steps: list[Step]) -> str:
    """The same text for steps that differ only in the names of their tensors."""
    places: dict[Value, int] = {}

    def named(v: Value) -> str:
        t = v.fake
        return f"{places.setdefault(v, len(places))} {dtype_name(t.dtype)} {list(t.shape)} {list(t.stride())}"

    made = []
    for step in steps:
        args = {k: map_values(a, named) for k, a in step.args.items()}
        outs = [named(v) if v is not None else "" for v in step.outs]
        made.append([op_name(step.op), args, outs])
    return json.dumps(made, default=str)
