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
from .modules import calls_of
from .operators import record_of
from .problems import Problem
from .program import Program, Step, Value, op_name
from .source import SEED
from .weights import dtype_name, tensor_hash

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


def recorded_tensors(program: Program, drawn: list[Drawn]) -> dict[str, torch.Tensor]:
    """The kept draws of inputs, as a task's file names them."""
    named = zip(program.inputs, drawn)
    return {f"{v.name}.{i}": t for v, d in named for i, t in enumerate(d.recorded)}


def step_json(step: Step) -> dict[str, Any]:
    return {
        "aten": op_name(step.op),
        "args": {k: _argument(v) for k, v in step.args.items()},
        "out": [out.name if out is not None else "" for out in step.outs],
    }


def program_text(program: Program) -> str:
    """What it computes, whatever the weights' values are that the seed decides."""
    parts = [[step_json(s) for s in program.steps], [v.name for v in (*program.inputs, *program.weights)]]
    fixed = [tensor_hash(v.data) for v in program.weights if v.kind == "constant"]
    return json.dumps([*parts, fixed, [v.name for v in program.outputs], program.returns])


def _input_json(v: Value, drawn: Drawn, partial: bool, records: str | None) -> dict[str, Any]:
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
    declared.update(draw=draw, facts=drawn.facts)
    if drawn.recorded:
        declared["content"] = {"file": records, "tensor": v.name, "draws": len(drawn.recorded)}
        if drawn.fixed:
            declared["content"]["fixed"] = True
    return declared


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
    records: str | None,
    source: str,
    part: str = "",
) -> dict[str, Any]:
    """`weights`: as declared; `records`: the blob with the recorded draws of inputs; `part`: the path of a module, of
    which the program is, "" for the whole model."""
    # Operators that are defined on a part of the numbers: draws of other kinds are folded into what get_inputs gives.
    partial = any("partial" in record_of(s) for s in program.steps)
    origin: dict[str, Any] = {"kind": problem.kind}
    if problem.kind == "kernelbench":
        origin.update(level=problem.level, problem=problem.number)
    origin.update(source=source, seed=SEED)
    if program.modes is not None:
        origin["modes"] = program.modes
    if part:
        origin["part"] = part
    if calls := calls_of(program):
        origin["modules"] = calls
    if values := {v.name: v.quantiles for s in program.steps for v in s.outs if v is not None and v.quantiles}:
        origin["values"] = values
    count = len(program.outputs)
    as_they_are = 0 if count == 1 else {"tuple": list(range(count))}
    task = {
        "format": 1,
        "name": problem.name,
        "summary": _summary(model, program),
        "family": family_of(program, problem.level),
        "inputs": [_input_json(v, d, partial, records) for v, d in zip(program.inputs, drawn)],
        "weights": weights,
        "steps": [step_json(s) for s in program.steps],
        "outputs": [v.name for v in program.outputs],
    }
    if program.states:
        task["states"] = [
            {
                "name": s.input.name if s.kind == "argument" else s.path,
                "kind": s.kind,
                "input": s.input.name,
                "output": program.outputs[s.output].name,
            }
            for s in program.states
        ]
    if program.states or program.returns != as_they_are:
        task["returns"] = program.returns
    task["origin"] = origin  # last, since it is long
    return task


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
