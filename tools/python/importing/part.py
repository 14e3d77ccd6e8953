"""One module of a model as a task of its own."""

from __future__ import annotations

import difflib
from typing import Any

import torch

from . import passes, replay
from .draws import RECORDED_DRAWS, SEEDS, Drawn, draw_of_state
from .modules import calls_of
from .program import Program, Value
from .refusal import Refused
from .source import SEED, Loaded
from .weights import name_values


def take_part(
    program: Program, path: str, loaded: Loaded, drawn: list[Drawn]
) -> tuple[Program, list[Drawn]]:
    """The steps of the first call of the module at `path`. What it reads of other modules' results becomes an input,
    recorded in calls of the model; its outputs are what the rest of the model reads of it."""
    call = _call_of(program, path)
    inside = program.steps[call["first"] : call["first"] + call["count"]]
    if program.states:
        kept = ", ".join(s.path or s.input.name for s in program.states)
        raise Refused(f"it keeps {kept} from call to call, and only the whole of such a model can be searched")
    made = {out for step in inside for out in step.outs if out is not None}
    read = list(dict.fromkeys(v for step in inside for v in step.reads() if v not in made))
    later = {v for step in program.steps if step not in inside for v in step.reads()} | {*program.outputs}
    outputs = [out for step in inside for out in step.outs if out in later]
    part = Program([], [], inside, outputs, program.mode)
    part.fitted, part.rewritings = program.fitted, program.rewritings
    part.weights = [w for w in program.weights if w in read]
    part.inputs = [v for v in read if v not in part.weights]
    if not part.outputs or not part.inputs:
        what = "gives nothing that the rest reads" if part.inputs else "reads no tensor that the others make"
        raise Refused(f"{path} {what}, so it is no task of its own")
    of_model = dict(zip(program.inputs, drawn))
    borders = [v for v in part.inputs if v not in of_model]
    recorded = _recorded(program, borders, loaded)
    for v in borders:
        of_model[v] = draw_of_state(recorded[v])
        # In the layout in which the other modules make it, but dense.
        of_model[v].tensor = recorded[v][0]
        v.fake = program.mode.from_tensor(recorded[v][0])
        v.kind = "input"
    part.type_steps()
    passes.own_outputs(part)
    part.returns = {"tuple": list(range(len(part.outputs)))} if len(part.outputs) > 1 else 0
    name_values(part)
    return part, [of_model[v] for v in part.inputs]


def name_of(model: str, path: str) -> str:
    return f"{model}.{path}"[:100]


def _call_of(program: Program, path: str) -> dict[str, Any]:
    calls = calls_of(program)
    for call in calls:
        if call["path"] == path:
            return call
    known = list(dict.fromkeys(call["path"] for call in calls))
    like = difflib.get_close_matches(path, known, 3) or known[:8]
    raise Refused(
        f"forward calls no module {path}; it calls {', '.join(like)}{', ...' if len(known) > len(like) else ''}"
        if known
        else "forward calls no modules, so there is no part of it to search"
    )


def _recorded(
    program: Program, borders: list[Value], loaded: Loaded
) -> dict[Value, list[torch.Tensor]]:
    """The values of steps in several calls of the model, with its own weights; KernelBench's inputs first."""
    if not borders:
        return {}
    seeds = [SEED, *(s for s in SEEDS if s != SEED)]
    seeds += [max(seeds) + i for i in range(1, RECORDED_DRAWS - len(seeds) + 1)]
    last = max(i for i, step in enumerate(program.steps) if any(v in borders for v in step.outs))
    before = Program(program.inputs, program.weights, program.steps[: last + 1], borders, program.mode)
    calls = []
    with torch.no_grad():
        for seed in seeds:
            calls.append(replay.run(before, replay.tensors_in(loaded.inputs(seed))))
    return {v: [values[i].clone() for values in calls] for i, v in enumerate(borders)}
