"""What cudal1's own rules say of the calls of operators: the program itself is asked."""

from __future__ import annotations

import contextlib
import json
import subprocess
from typing import Iterator

import torch

from .program import Program, Step, Value
from .refusal import Refused
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


class _Copier:
    """Goes through the steps and puts contiguous copies where the rules refuse a call with its operands' layouts:
    channels-last images, expanded masks."""

    def __init__(self, program: Program, rules: Rules) -> None:
        self.program, self.rules = program, rules
        self.steps: list[Step] = []
        self.copies: dict[Value, Step] = {}
        self.moved: set[Value] = set()  # their layouts are not what was recorded

    def run(self) -> int:
        for step in self.program.steps:
            if any(v in self.moved for v in step.reads()):
                self._type_results(step)
            if refusal := self.rules.refusal_of(step):
                self._accept(step, refusal)
            self.steps.append(step)
        self.program.steps = self.steps
        return len(self.copies)

    def _accept(self, step: Step, refusal: str) -> None:
        strided = [v for v in dict.fromkeys(step.reads()) if not v.fake.is_contiguous()]
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
                return
        makers = {out: s for s in self.steps for out in s.outs}
        where = step.where or next((makers[v].where for v in step.reads() if v in makers), "")
        raise Refused(f"{step.name}{where}: {refusal}")

    def _copy(self, v: Value) -> Step:
        args = {"self": v, "memory_format": torch.contiguous_format}
        return self.copies.get(v) or self.program.step(aten.clone.default, args, f"{v.name}_contiguous")

    def _type_results(self, step: Step) -> None:
        if self.program.type_results(step):
            self.moved.update(out for out in step.outs if out is not None)


def copy_what_must_be_contiguous(program: Program, rules: Rules) -> int:
    """Changes the program so that the rules accept each step; gives the number of copies. Values must have names, and
    the copies' are to be made unique."""
    return _Copier(program, rules).run()
