"""What cudal1 knows of operators: its records, as `cudal1 operators --json` prints them."""

from __future__ import annotations

import json
import math
import subprocess
from typing import Any

import torch

from .program import Step, op_name

_records: dict[str, dict[str, Any]] = {}  # by name and alias


def text_of(program: str) -> bytes:
    """`program`: the path of cudal1, which is asked."""
    return subprocess.run([program, "operators", "--json"], check=True, stdout=subprocess.PIPE).stdout


def load(text: bytes) -> None:
    """Call it before anything else of this package is used."""
    _records.clear()
    for record in json.loads(text)["operators"]:
        for name in (record["name"], *record.get("aliases", ())):
            _records[name] = record


def names() -> list[str]:
    """Of all that a task can have, aliases included."""
    return list(_records)


def is_known(op: torch._ops.OpOverload) -> bool:
    return op_name(op) in _records


def record_named(name: str) -> dict[str, Any]:
    """Empty if a task cannot have the operator."""
    return _records.get(name, {})


def record_of(step: Step) -> dict[str, Any]:
    return record_named(step.name)


def kind_of(step: Step) -> str:
    return record_of(step).get("kind", "")


def overload(name: str) -> torch._ops.OpOverload:
    packet, _, overload_name = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload_name or "default")


def argument_names(op: torch._ops.OpOverload) -> list[str]:
    return [a.name for a in op._schema.arguments]


def interval(bounds: list[Any]) -> tuple[float, float]:
    low, high = (float(b) for b in bounds)
    return low, high


EVERYTHING = (-math.inf, math.inf)


def use_one_name(step: Step) -> None:
    """Replaces an alias by the record's own name; the arguments are in the same order."""
    name = record_of(step).get("name", step.name)
    if name == step.name:
        return
    op = overload(name)
    renamed = dict(zip(argument_names(step.op), argument_names(op)))
    step.op, step.args = op, {renamed[k]: v for k, v in step.args.items()}
