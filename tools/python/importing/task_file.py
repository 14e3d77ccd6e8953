"""A program as the text of a task file."""

from __future__ import annotations

import inspect
import json
import math
import re
from typing import Any

import torch

from .draws import Drawn
from .families import family_of
from .operators import record_of
from .program import Program, Step, Value, op_name
from .source import SEED, Problem
from .weights import dtype_name

_MEMORY_FORMATS = {
    torch.contiguous_format: "contiguous_format",
    torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
    torch.preserve_format: "preserve_format",
}

def _argument(v: Any) -> Any:
    if isinstance(v, Value):
        return v.name
    if isinstance(v, (list, tuple)):
        return [_argument(x) for x in v]
    if isinstance(v, torch.dtype):
        return dtype_name(v)
    if isinstance(v, torch.memory_format):
        return _MEMORY_FORMATS[v]
    if isinstance(v, float) and not math.isfinite(v):
        return "nan" if math.isnan(v) else ("inf" if v > 0 else "-inf")
    return v


def step_json(step: Step) -> dict[str, Any]:
    return {
        "aten": op_name(step.op),
        "args": {k: _argument(v) for k, v in step.args.items()},
        "out": [out.name if out is not None else "" for out in step.outs],
    }


def _input_json(v: Value, drawn: Drawn, partial: bool) -> dict[str, Any]:
    declared: dict[str, Any] = {
        "name": v.name,
        "dtype": dtype_name(v.fake.dtype),
        "shape": list(drawn.tensor.shape),
    }
    if not drawn.tensor.is_contiguous():
        declared["strides"] = list(drawn.tensor.stride())
    draw = dict(drawn.draw)
    if partial and draw["distribution"] == "uniform" and draw["low"] >= 0:
        draw.update(min=draw["low"], max=draw["high"])
    return {**declared, "draw": draw, "facts": drawn.facts}


def _summary(model: torch.nn.Module, program: Program) -> str:
    doc = type(model).__dict__.get("__doc__") or ""
    line = next((s.strip() for s in inspect.cleandoc(doc).splitlines() if s.strip()), "")
    if not line or line.startswith((":", "Args")):
        names = list(dict.fromkeys(s.name.removeprefix("aten::").split(".")[0] for s in program.steps))
        line = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    line = re.sub(r"\s+", " ", line)
    while len(line.encode()) > 400:
        line = line[:-8]
    return line


def task_json(
    problem: Problem,
    model: torch.nn.Module,
    program: Program,
    drawn: list[Drawn],
    weights: list[dict[str, Any]],
    source: str,
) -> dict[str, Any]:
    # For operators that are defined only for some numbers, other draws are folded into the range of get_inputs.
    partial = any("partial" in record_of(s) for s in program.steps)
    origin: dict[str, Any] = {"kind": problem.kind}
    if problem.kind == "kernelbench":
        origin.update(level=problem.level, problem=problem.number)
    origin.update(source=source, seed=SEED)
    return {
        "format": 1,
        "name": problem.name,
        "summary": _summary(model, program),
        "family": family_of(program, problem.level),
        "origin": origin,
        "inputs": [_input_json(v, d, partial) for v, d in zip(program.inputs, drawn)],
        "weights": weights,
        "steps": [step_json(s) for s in program.steps],
        "outputs": [v.name for v in program.outputs],
    }


def task_text(task: dict[str, Any]) -> str:
    """One tensor or step per line, as in the built-in tasks."""
    lines = []
    for key, value in task.items():
        if key in ("inputs", "weights", "steps") and value:
            items = ",\n".join("    " + json.dumps(item) for item in value)
            lines.append(f"  {json.dumps(key)}: [\n{items}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
