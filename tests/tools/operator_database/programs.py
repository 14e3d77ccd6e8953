"""A sample's call as a program of cudal1's, through the importer's own passes and rules, and what its interpreter
makes of it."""

from __future__ import annotations

import collections
import json
import pathlib
import subprocess
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

from importing import operators, passes, rules, task_file, weights
from importing.program import Program, Value, op_name
from importing.reading import Reader, has_parts
from importing.refusal import Refused
from importing.tracing import refusal_of, whole_recurrence

from samples import Sample

_CORE = core_aten_decompositions()


class Built:
    def __init__(self, program: Program, recorded: list[str], same_kernels: bool) -> None:
        self.program, self.recorded, self.same_kernels = program, recorded, same_kernels


def _traced(sample: Sample, fakes: list[torch.Tensor], mode: FakeTensorMode) -> torch.fx.GraphModule:
    def call(*bases: torch.Tensor) -> list[torch.Tensor]:
        return [x for x in tree_leaves(sample.call(*bases)) if isinstance(x, torch.Tensor)]

    with mode:
        if sample.form == "core":
            return make_fx(call, decomposition_table=_CORE)(*fakes)
        return make_fx(call, pre_dispatch=True)(*fakes)


def _constants_as_inputs(traced: torch.fx.GraphModule, program: Program) -> dict[torch.fx.Node, Value]:
    """Tensors that the call makes from numbers, which torch.export lifts."""
    values: dict[torch.fx.Node, Value] = {}
    for node in list(traced.graph.nodes):
        if node.op == "get_attr":
            data = getattr(traced, node.target).detach()
            with traced.graph.inserting_before(node):
                place = traced.graph.placeholder(node.name)
            node.replace_all_uses_with(place)
            traced.graph.erase_node(node)
            values[place] = Value(place.name, program.mode.from_tensor(data), "constant", data, place.name)
            program.weights.append(values[place])
    return values


def build(sample: Sample, asked: rules.Rules) -> Built:
    """Refused where the importer refuses it."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    program = Program([], [], [], [], mode)
    fakes = [mode.from_tensor(t) for t in sample.bases]
    recorded: list[str] = []
    with torch.no_grad(), whole_recurrence():
        try:
            traced = _traced(sample, fakes, mode)
        except Exception as e:
            raise refusal_of(e) from e
        recorded += [op_name(n.target) for n in traced.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
        given = [n for n in traced.graph.nodes if n.op == "placeholder"]
        program.inputs = [Value(f"input_{i}", fake, "input") for i, fake in enumerate(fakes)]
        reader = Reader(program)
        reader.env = dict(zip(given, program.inputs)) | _constants_as_inputs(traced, program)
        try:
            reader.read(traced.graph)
            result = next(n for n in traced.graph.nodes if n.op == "output").args[0]
            program.outputs = [reader.env[n] for n in result]
            if not program.outputs:
                raise Refused("forward returns no tensor")
            if not all(isinstance(v, Value) for v in program.outputs):
                raise Refused("it returns complex numbers")
            passes.make_task_program(program, lambda value: True)
            weights.name_values(program)
            unknown = sorted({s.name for s in program.steps if not operators.is_known(s.op) and not has_parts(s.op)})
            if unknown:
                raise Refused(f"it needs {', '.join(unknown)}")
            fitted = rules.fit_to_rules(program, asked)
            weights.name_values(program)
        except Exception as e:
            refusal = refusal_of(e, whole=False)
            if refusal is None:
                raise
            refusal.recorded = recorded
            raise refusal from e
    names = {operators.record_named(name).get("name") for name in recorded}
    same = sample.form == "recorded" and not fitted.copies and not fitted.parts and all(s.name in names for s in program.steps)
    return Built(program, recorded, same)


# ---- the interpreter ------------------------------------------------------------------------------------------------


def _declared(v: Value) -> dict[str, Any]:
    kind = {"distribution": "normal", "mean": 0, "std": 1}
    if v.fake.dtype == torch.bool:
        kind = {"distribution": "bernoulli", "probability": 0.5}
    elif not v.fake.dtype.is_floating_point:
        kind = {"distribution": "integer", "low": 0, "high": 2}
    return {"name": v.name, "dtype": weights.dtype_name(v.fake.dtype), "shape": list(v.fake.shape), "draw": kind}


def task_text(program: Program) -> str:
    return json.dumps({
        "format": 1,
        "name": "sample",
        "inputs": [_declared(v) for v in program.inputs],
        "weights": [_declared(v) for v in program.weights],
        "steps": [task_file.step_json(s) for s in program.steps],
        "outputs": [v.name for v in program.outputs],
    })


class Interpreter:
    """cudal1-replay, with a few requests on the way while the next programs are made."""

    def __init__(self, program: str, device: str) -> None:
        self.command = [program, "--device", device]
        self.process: subprocess.Popen[str] | None = None
        self.waiting: collections.deque[dict[str, Any]] = collections.deque()

    def send(self, request: dict[str, Any]) -> None:
        self.waiting.append(request)
        self._write(request)

    def _write(self, request: dict[str, Any]) -> None:
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # receive() sees that it has ended

    def receive(self) -> dict[str, Any]:
        """The answer to the oldest request."""
        self.waiting.popleft()
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else None
        if answer and "CUDA error" not in answer.get("error", ""):
            return answer
        self.process.kill()  # after an error of CUDA's it cannot go on
        code = self.process.wait()
        self.process = None
        for request in self.waiting:
            self._write(request)
        return answer or {"error": f"cudal1-replay ended with exit code {code}"}

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()


def remove(*paths: pathlib.Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
