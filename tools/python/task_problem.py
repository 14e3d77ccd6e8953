#!/usr/bin/env python3
"""A task as a problem in KernelBench's form: Python with Model, get_inputs and get_init_inputs.

    task_problem.py TASK.json     prints it; - reads the task from standard input

For tasks that were not imported from such a file, or that are one module of it. The text needs PyTorch alone. Model
computes the task's own ATen steps; its weights are buffers.
"""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

from task_model import draw, forward_text, is_word


class Unsupported(Exception):
    """What a text cannot hold."""


def problem_text(torch: Any, task: dict) -> str:
    """Unsupported, with the reason."""
    for declaration in [*task["inputs"], *task.get("weights", [])]:
        if declaration.get("content", {}).get("fixed"):
            raise Unsupported(f"{declaration['name']} has values from a file that belong to the task's definition: import "
                              "the whole model, whose own source is its problem")
    members = weight_names(torch, task)
    forward, constants = forward_text(torch, task, members)
    lines = ["import torch", "", "ops = torch.ops.aten"]
    lines += [f"{name} = {what}" for name, what in sorted(constants.items())]
    lines += ["", "", "class Model(torch.nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        self.register_buffer({name!r}, draw(torch, {drawn(d)!r}))"
              for name, d in zip(members, task.get("weights", []))]
    lines += [""] + ["    " + line for line in forward.splitlines()] + ["", ""]
    # Its annotations name what the text does not import.
    lines += inspect.getsource(draw).replace("(torch: Any, declaration: dict) -> Any", "(torch, declaration)").splitlines()
    lines += ["", "", "def get_inputs():", "    return ["]
    lines += [f"        draw(torch, {drawn(d)!r}),  # {d['name']}" for d in task["inputs"]]
    lines += ["    ]", "", "", "def get_init_inputs():", "    return []"]
    return "\n".join(lines) + "\n"


def weight_names(torch: Any, task: dict) -> list[str]:
    """Of the model's buffers: the task's own names, where they can be members of a module."""
    declared = [d["name"] for d in task.get("weights", [])]
    of_modules = set(dir(torch.nn.Module))
    return [name if is_word(name) and name not in of_modules else f"w{i}" for i, name in enumerate(declared)]


def drawn(declaration: dict) -> dict:
    """What draw reads of it."""
    return {name: declaration[name] for name in ("dtype", "shape", "strides", "draw", "facts") if declaration.get(name)}


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "-":
        task = json.load(sys.stdin)
    else:
        with open(sys.argv[1], encoding="utf-8") as file:
            task = json.load(file)
    import torch

    try:
        sys.stdout.write(problem_text(torch, task))
    except Unsupported as problem:
        print(f"task_problem: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
