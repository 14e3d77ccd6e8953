"""Compares the written steps with the model: on the CPU, with the same inputs and weights, bit for bit or, where both
sum the same terms with different kernels, within rounding."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import torch

from .operators import kind_of, record_of
from .program import Program, Step, Value, is_view
from .quantiles import quantiles_of
from .refusal import Refused
from .source import OnCpu, running
from .state import attribute
from .structure import places_in


def products(step: Step) -> float:
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
    return sum(products(s) for s in program.steps) / 1e10 + elements / 2e8


def seconds_of_check(program: Program) -> float:
    """Of one call of each, the program and its model."""
    return 2 * seconds_of(program)


def run(program: Program, tensors: list[torch.Tensor], record: bool = False) -> list[torch.Tensor]:
    """The outputs. `tensors`: of the inputs. `record`: also keeps how the values of steps are distributed."""
    known: dict[Value, torch.Tensor] = dict(zip(program.inputs, tensors))
    known.update({w: w.data for w in program.weights})
    last_read = {v: step for step in program.steps for v in step.reads()}
    keep = {*program.outputs, *program.inputs}
    for step in program.steps:
        results = step.call(known.__getitem__)
        made = {out: r for out, r in zip(step.outs, results) if out is not None}
        known.update(made)
        if record and not is_view(step):
            for out, r in made.items():
                out.quantiles = quantiles_of(r)
        for v in list(step.reads()):
            if last_read[v] is step and v not in keep:
                known.pop(v, None)
    return [known[v] for v in program.outputs]


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
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


# The model may sum a product's terms with another kernel than the recorded step, as the fast path of
# nn.MultiheadAttention does: the rounding errors of some layers of sums, in units of the type's epsilon and of the
# tensor's largest value. Half types round each result, after sums in float32.
ROUNDING = {torch.float64: 128, torch.float32: 128, torch.float16: 4, torch.bfloat16: 4}
SUMMING = {"product", "convolution", "attention", "recurrent"}


def rounding_between(a: torch.Tensor, b: torch.Tensor) -> float | None:
    """The largest difference over the largest value; None if rounding does not explain it."""
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype not in ROUNDING:
        return None
    a, b, eps = a.double(), b.double(), torch.finfo(a.dtype).eps * ROUNDING[a.dtype]
    finite = b.isfinite()
    if not torch.equal(finite, a.isfinite()) or not same(a[~finite], b[~finite]):
        return None
    if not finite.any():
        return 0.0
    off = float((a - b)[finite].abs().max()) / max(float(b[finite].abs().max()), 1e-300)
    return off if off <= eps else None


# In a row, with the same inputs: two tell whether the model keeps something.
CALLS, CALLS_WITH_STATE = 2, 5


@dataclasses.dataclass
class Checked:
    calls: int  # that gave what the model gives
    rounding: float  # the largest difference in any of them, over the tensor's largest value; 0: the same bits
    states: list[list[torch.Tensor]]  # of each state its value before the first call, and after each
    never_finite: list[str]  # sentences on outputs without one finite element


def tensors_in(values: Any) -> list[torch.Tensor]:
    return [x for x in torch.utils._pytree.tree_leaves(values) if isinstance(x, torch.Tensor)]


def same_leaves(a: Any, b: Any) -> bool:
    """Whether two results, or two attributes, hold the same numbers."""
    ours, theirs = tensors_in(a), tensors_in(b)
    return len(ours) == len(theirs) and all(map(same, ours, theirs))


class _Calls:
    """The program and the model, called in turns; each keeps its own state."""

    def __init__(self, program: Program, model: torch.nn.Module, arguments: list[Any]) -> None:
        self.program, self.model, self.arguments = program, model, arguments
        self.inputs = tensors_in(arguments)
        self.kept = [s for s in program.states if s.kind != "argument"]
        self.states = [[s.input.data] for s in self.kept]
        self.last: list[torch.Tensor] = []
        self.sums = program.rounds or any(kind_of(step) in SUMMING for step in program.steps)
        self.rounding = 0.0
        self.never_finite: list[str] = []
        makers = program.makers()
        places = enumerate(places_in(program.returns))
        self.made_at = {i: makers[v].where for i, place in places if (v := program.outputs[place]) in makers}

    def call(self, number: int) -> None:
        if number == 1 or self.kept:
            given = [x.clone() for x in self.inputs] + [values[-1] for values in self.states]
            self.last = [x.detach() for x in run(self.program, given, record=number == 1)]
        for values, state in zip(self.states, self.kept):
            values.append(self.last[state.output])
        arguments = torch.utils._pytree.tree_map(
            lambda x: x.clone() if isinstance(x, torch.Tensor) else x, self.arguments
        )
        with OnCpu(), running("forward"):
            theirs = self.model(*arguments)
        ours = [self.last[place] for place in places_in(self.program.returns)]
        for i, (a, b) in enumerate(zip(ours, tensors_in(theirs), strict=True)):
            what = f"output {i}{self.made_at.get(i, '')}"
            self._compare(number, what, a, b)
            if number == 1 and a.numel() and not a.isfinite().any():
                kind = "NaN" if a.isnan().all() else "infinite" if a.isinf().all() else "NaN or infinite"
                self.never_finite.append(f"{what} is {kind} in every element")
        given = dict(zip(self.program.inputs, tensors_in(arguments)))
        for state in self.program.states:
            after = given[state.input] if state.kind == "argument" else attribute(self.model, state.path)
            self._compare(number, state.path, self.last[state.output], after)

    def _compare(self, number: int, what: str, a: torch.Tensor, b: torch.Tensor) -> None:
        if same(a, b):
            return
        if self.sums and (rounding := rounding_between(a, b)) is not None:
            self.rounding = max(self.rounding, rounding)
            return
        same_type = a.shape == b.shape and a.dtype == b.dtype
        off = f"off by up to {float((a.double() - b.double()).abs().max()):.3g}" if same_type else "of another type"
        if number == 1:
            self._check_weights()
            raise Refused(
                f"the recorded steps do not give what the model gives ({what}: {off}); forward depends "
                "on something that a recording cannot see"
            )
        raise Refused(
            f"call {number} with the same inputs gives something else than the recorded steps ({what}: {off}); forward "
            "keeps something from call to call that is no tensor of the model (a global variable, an object of its "
            "own): keep it as a buffer"
        )


    def _check_weights(self) -> None:
        """The program has those of another model that was made with the same seed."""
        for v in self.program.weights:
            try:
                again = attribute(self.model, v.target)
            except AttributeError:
                continue  # made by the importer
            if isinstance(again, torch.Tensor) and again.shape == v.data.shape and not same(again.detach(), v.data):
                raise Refused(
                    f"self.{v.target} has other values when the model is made again with the same seed, as torch.empty gives "
                    "them: initialise it, or give its values by a checkpoint (--weights)"
                )


def check(program: Program, model: torch.nn.Module, arguments: list[Any], limit_s: float) -> Checked:
    """Calls both, as often as there is time, and not at all where one call would take longer than that. `model` is
    fresh; a difference is a refusal."""
    calls = _Calls(program, model, arguments)
    done = 0
    begin = time.monotonic()
    with torch.no_grad():
        while done < (CALLS_WITH_STATE if program.states else CALLS):
            passed = time.monotonic() - begin
            if (passed + passed / done if done else seconds_of_check(program)) > limit_s:
                break
            done += 1
            calls.call(done)
    return Checked(done, calls.rounding, calls.states, calls.never_finite)
