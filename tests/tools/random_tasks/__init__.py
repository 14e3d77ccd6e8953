"""Random tasks for hunt_failures.py: programs of the operators that models use, on random shapes, types and layouts.

Values stay of moderate size and the steps continuous, so that honest differences of rounding stay small.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from .program import Program, Unfit, Value
from .steps import start, step


def random_task(name: str, r: random.Random) -> dict[str, Any]:
    p = Program(r)
    start(p)
    wanted = r.randint(1, 12)
    for _ in range(10 * wanted):
        if len(p.steps) < wanted:
            attempt(p, step)
    return finished(p, name)


def attempt(p: Program, what: Callable[[Program], Any]) -> None:
    before = p.state()
    try:
        what(p)
    except Unfit:
        p.restore(before)


def operands(s: dict[str, Any]) -> list[str]:
    flat: list[Any] = []
    for a in s["args"].values():
        flat += a if isinstance(a, list) else [a]
    return [a for a in flat if isinstance(a, Value)]


def finished(p: Program, name: str) -> dict[str, Any]:
    """With the unread values as outputs, without what they do not need, and sometimes with states."""
    if not p.steps:
        p.call("mul.Scalar", self=Value(p.inputs[0]["name"]), other=2.0)
    read = {o for s in p.steps for o in operands(s)}
    outputs = [v for s in p.steps for v in s["out"][:1] if v not in read][-3:]
    if p.r.random() < 0.3 and len(p.steps) > 2:  # one that is read, too
        outputs.append(p.r.choice(p.steps[:-1])["out"][0])
    # An output has memory of its own.
    owned = [p.call("clone", self=v, memory_format="contiguous_format") if p.shares_memory(v) else v
             for v in dict.fromkeys(outputs)]  # fmt: skip
    needed, steps = set(owned), []
    for s in reversed(p.steps):
        if needed & set(s["out"]):
            steps.insert(0, s)
            needed |= set(operands(s))
    used = {key: [t for t in tensors if t["name"] in needed]
            for key, tensors in (("inputs", p.inputs), ("weights", p.weights))}  # fmt: skip
    task = {"format": 1, "name": name, "summary": "made by hunt_failures.py", "family": "random", **used,
            "steps": steps, "outputs": owned}  # fmt: skip
    if p.r.random() < 0.3:
        add_state(p, task)
    return json.loads(json.dumps(task))


def add_state(p: Program, task: dict[str, Any]) -> None:
    """What a call makes as an output, the next one is given as an input, if there is a pair that fits."""
    for i in task["inputs"]:
        for o in task["outputs"]:
            a, b = p.tensor(i["name"]), p.tensor(o)
            if a.shape != b.shape or a.dtype != b.dtype or not a.is_floating_point() or "facts" in i:
                continue
            kind = p.r.choice(("assigned", "in_place", "argument"))
            name = i["name"] if kind == "argument" else "kept"
            task["states"] = [{"name": name, "kind": kind, "input": i["name"], "output": o}]
            task["returns"] = {"tuple": list(range(len(task["outputs"])))}
            task["inputs"].sort(key=lambda each: each is i)  # behind what forward is given
            return
