"""What cudal1's own rules say of the calls of operators: the program itself is asked."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
from typing import Iterator

import torch

from .operators import is_known
from .passes import leave_out_defaults, own_outputs, simplify
from .program import Program, Step, Value
from .reading import Reader, has_parts
from .refusal import Refused
from .rewriting_check import checked
from .task_file import step_json
from .weights import dtype_name

aten = torch.ops.aten


class Rules:
    def __init__(self, process: subprocess.Popen) -> None:
        self.process = process

    def refusal_of(self, step: Step) -> str:
        """Why a task may not have the step with its tensors as they are; "" if it may. Values must have their names."""
        call = {"tensors": {v.name: _type_json(v.fake) for v in step.reads()}, **step_json(step)}
        del call["out"]
        print(json.dumps(call), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.process.args[0]} ended while it was asked for its rules")
        return json.loads(answer)["refused"]


@contextlib.contextmanager
def asked_of(program: str) -> Iterator[Rules]:
    """`program`: the path of cudal1."""
    words = [program, "operators", "--check"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Rules(process)
        process.stdin.close()


def _type_json(t: torch.Tensor) -> dict:
    return {"dtype": dtype_name(t.dtype), "shape": list(t.shape), "strides": list(t.stride())}


@dataclasses.dataclass
class Fitted:
    copies: int  # tensors that are copied to be contiguous
    parts: list[str]  # operators that are computed by parts


_DEPTH = 5  # of decompositions of decompositions


def _is_plain(t: torch.Tensor) -> bool:
    """Contiguous in every stride, that of a size of 1 too, as the rules have it."""
    strides, step = [], 1
    for size in reversed(t.shape):
        strides.insert(0, step)
        step *= max(size, 1)
    return t.stride() == tuple(strides)


class _Fitter:
    """Goes through the steps. Where the rules refuse a call, contiguous copies of its operands may help (channels-last
    images, expanded masks), or what PyTorch says that the operator is made of."""

    def __init__(self, program: Program, rules: Rules) -> None:
        self.program, self.rules = program, rules
        self.steps: list[Step] = []
        self.copies: dict[Value, Step] = {}
        self.moved: set[Value] = set()  # their layouts are not what was recorded
        self.same: dict[Value, Value] = {}  # a decomposed operator's results
        self.parts: list[str] = []

    def run(self) -> Fitted:
        for step in self.program.steps:
            self._add(step, 0)
        self.program.steps = self.steps
        self.program.outputs = [self._now(v) for v in self.program.outputs]
        if self.parts:
            own_outputs(self.program)
        return Fitted(len(self.copies), list(dict.fromkeys(self.parts)))

    def _now(self, v: Value) -> Value:
        while v in self.same:
            v = self.same[v]
        return v

    def _add(self, step: Step, depth: int) -> None:
        step.replace(self._now)
        if any(v in self.moved for v in step.reads()):
            self._type_results(step)
        if not is_known(step.op):
            if not self._by_parts(step, depth):
                raise Refused(
                    f"it needs {step.name}{step.where}, which is not among the operators of a task; write it with others"
                )
            return
        refusal = self.rules.refusal_of(step)
        if not refusal:
            self.steps.append(step)
        elif not self._with_copies(step) and not self._by_parts(step, depth):
            makers = {out: s for s in self.steps for out in s.outs}
            where = step.where or next((makers[v].where for v in step.reads() if v in makers), "")
            raise Refused(f"{step.name}{where}: {refusal}")

    def _with_copies(self, step: Step) -> bool:
        strided = [v for v in dict.fromkeys(step.reads()) if not _is_plain(v.fake)]
        given = step.args
        # One operand if that is enough: attention takes transposed heads, and no expanded mask.
        for some in ([[v] for v in strided] + [strided]) if strided else []:
            copies = {v: self._copy(v) for v in some}
            step.args = given
            step.replace(lambda v: copies[v].outs[0] if v in copies else v)
            if not self.rules.refusal_of(step):
                for v, copy in copies.items():
                    if v not in self.copies:
                        self.copies[v] = copy
                        self.steps.append(copy)
                self._type_results(step)
                self.steps.append(step)
                return True
        step.args = given
        return False

    def _copy(self, v: Value) -> Step:
        args = {"self": v, "memory_format": torch.contiguous_format}
        return self.copies.get(v) or self.program.step(aten.clone.default, args, f"{v.name}_contiguous")

    def _by_parts(self, step: Step, depth: int) -> bool:
        if depth == _DEPTH or not has_parts(step.op):
            return False
        before = len(self.steps), dict(self.copies), set(self.moved), dict(self.same), list(self.parts)
        try:
            parts = self._parts_of(step)
            for part in parts.steps:
                self._add(part, depth + 1)
        except Refused:
            count, self.copies, self.moved, self.same, self.parts = before
            del self.steps[count:]
            return False
        self.program.weights += parts.weights
        for out, part in zip((out for out in step.outs if out is not None), parts.outputs):
            self.same[out] = self._now(part)
            if out.fake.stride() != part.fake.stride():
                self.moved.add(self._now(part))
        if depth == 0:
            self.parts.append(step.name)
        return True

    def _parts_of(self, step: Step) -> Program:
        name = next(out.name for out in step.outs if out is not None)
        parts = Program(list(dict.fromkeys(step.reads())), [], [], [], self.program.mode)
        parts.rewritings = self.program.rewritings
        reader = Reader(parts)
        reader.where, reader.calls = step.where, step.calls
        try:
            results = reader.decompose(step.op, step.args, name)
        except (RuntimeError, NotImplementedError, TypeError, KeyError) as e:  # not for these operands
            raise Refused(str(e)) from e
        results = results if isinstance(results, (list, tuple)) else [results]
        parts.outputs = [r for r, out in zip(results, step.outs) if out is not None]
        simplify(parts)
        leave_out_defaults(parts)
        unknown = {s.name for s in parts.steps if not is_known(s.op) and not has_parts(s.op)}
        if unknown:
            raise Refused(f"it is made of {', '.join(sorted(unknown))}")
        return parts

    def _type_results(self, step: Step) -> None:
        if self.program.type_results(step):
            self.moved.update(out for out in step.outs if out is not None)


def fit_to_rules(program: Program, rules: Rules) -> Fitted:
    """Changes the program so that the rules accept each step. Values must have names, and those of new ones are to be
    made unique."""

    def fit_to_the_rules(program: Program) -> Fitted:
        return _Fitter(program, rules).run()

    return checked(program, fit_to_the_rules)
