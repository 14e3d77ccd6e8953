"""Compares the written steps with the model: on the CPU, with the same inputs and weights, bit for bit."""

from __future__ import annotations

import math
from typing import Any

import torch

from .operators import kind_of, record_of
from .program import Program, Step, Value
from .refusal import Refused
from .source import OnCpu, running


def _products(step: Step) -> float:
    """Multiplications of a step, if they are many."""
    args, out = step.args, step.outs[0]
    if out is None:
        return 0
    name, kind, size = step.name, kind_of(step), out.fake.numel()
    if kind == "convolution":
        over = args["input"].fake.numel() if "transpose" in name else size
        return over * math.prod(args["weight"].fake.shape[1:])
    if kind == "product":
        left, _ = record_of(step).get("product", ("self", ""))
        return size * args[left].fake.shape[-1]
    if kind == "attention":
        return 2 * size * args["key"].fake.shape[-2]
    if kind == "recurrent" and "params" in args:
        rows = args["input"].fake.numel() // args["input"].fake.shape[-1]
        return 3 * rows * sum(v.fake.numel() for v in args["params"])
    return 0


def seconds_of(program: Program) -> float:
    """A rough estimate of one call on one slow core."""
    elements = sum(out.fake.numel() for s in program.steps for out in s.outs if out is not None)
    return sum(_products(s) for s in program.steps) / 1e10 + elements / 2e8


def _run(program: Program, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    known: dict[Value, torch.Tensor] = dict(zip(program.inputs, tensors))
    known.update({w: w.data for w in program.weights})
    last_read = {v: step for step in program.steps for v in step.reads()}
    keep = {*program.outputs, *program.inputs}
    for step in program.steps:
        results = step.call(known.__getitem__)
        known.update({out: r for out, r in zip(step.outs, results) if out is not None})
        for v in list(step.reads()):
            if last_read[v] is step and v not in keep:
                known.pop(v, None)
    return [known[v] for v in program.outputs]


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(
        torch.equal(a, b)
        or (
            a.is_floating_point()
            and torch.equal(a.isnan(), b.isnan())
            and torch.equal(a.nan_to_num(0.5), b.nan_to_num(0.5))
        )
    )


def check(program: Program, model: torch.nn.Module, arguments: list[Any], limit_s: float) -> bool:
    """False if it would take longer than `limit_s`. `model` must be fresh. Raises Refused for a difference."""
    if 2 * seconds_of(program) > limit_s:
        return False
    inputs = [x for x in torch.utils._pytree.tree_leaves(arguments) if isinstance(x, torch.Tensor)]
    with torch.no_grad():
        ours = _run(program, [x.clone() for x in inputs])
        with OnCpu(), running("forward"):
            theirs = model(*arguments)
    theirs = [x for x in torch.utils._pytree.tree_leaves(theirs) if isinstance(x, torch.Tensor)]
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if not _same(a, b):
            off = (
                "another shape or dtype"
                if a.shape != b.shape or a.dtype != b.dtype
                else f"off by up to {float((a.double() - b.double()).abs().max()):.3g}"
            )
            raise Refused(
                f"the recorded steps do not give what the model gives (output {i}: {off}); forward depends "
                "on something that cannot be recorded"
            )
    return True
