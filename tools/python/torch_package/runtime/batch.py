"""A variant for every batch size of a range, of one set of kernels that take the size as an argument. Its program and plan are
templates: {"$batch": [scale, offset, divisor]} is (scale * batch + offset) // divisor (policy/moves/batch_family.hpp)."""

from __future__ import annotations

import json
import threading
from typing import Any, Callable

import torch

from .dispatch import Case
from .operators import Operator

_MOST_SIZES = 64  # whose programs are kept


def at_batch(template: Any, batch: Any) -> Any:
    """`batch`: a number, or one that torch.compile does not know yet."""
    if isinstance(template, dict):
        if "$batch" in template:
            scale, offset, divisor = template["$batch"]
            linear = scale * batch + offset
            return linear if divisor == 1 else linear // divisor
        return {key: at_batch(value, batch) for key, value in template.items()}
    if isinstance(template, list):
        return [at_batch(item, batch) for item in template]
    return template


class _Sized(Operator):
    """The variant of one size: no operator of PyTorch of its own; what set-up made is the range's."""

    def __init__(self, range_: RangeOperator, batch: int):
        self._range = range_
        super().__init__(f"{range_.name}_{batch}", at_batch(range_.template, batch), range_.library, range_.plan_of(batch))

    def _register(self) -> Any:
        return None

    def counted(self) -> None:
        self._range.counted()

    def _set_up(self, function: Any, weights: list[torch.Tensor]) -> list[torch.Tensor]:
        return self._range.kept(function, weights)


class RangeOperator(Operator):
    """As Operator, for batches of low..high that are multiples of `multiple`. By itself it is that of the tuned size, whose
    set-up serves all: set-up steps do not depend on the batch."""

    def __init__(self, entry: dict[str, Any], template: dict[str, Any], load: Callable[[torch.device], Any],
                 plan: str | None):
        self.template, self.low, self.high, self.multiple = template, entry["low"], entry["high"], entry["multiple"]
        self.tuned = entry["tuned"]
        self._plan_template = json.loads(plan) if plan is not None else None
        self._load_once, self._libraries = load, {}
        self._sized: dict[int, _Sized] = {}
        self._gone = 0  # calls of sizes that are not kept any more
        self._sizes_lock = threading.RLock()
        super().__init__(entry["operator"], at_batch(template, self.tuned), self.library, self.plan_of(self.tuned))
        self.is_graph = False  # set-up is kept here, and graphs by size

    def plan_of(self, batch: int) -> str | None:
        return None if self._plan_template is None else json.dumps(at_batch(self._plan_template, batch))

    def library(self, device: torch.device) -> Any:
        with self._sizes_lock:
            if device not in self._libraries:
                self._libraries[device] = self._load_once(device)
            return self._libraries[device]

    def at(self, batch: int) -> _Sized:
        found = self._sized.get(batch)
        if found is None:
            with self._sizes_lock:
                found = self._sized.get(batch) or _Sized(self, batch)
                while len(self._sized) >= _MOST_SIZES:
                    self._gone += self._sized.pop(next(iter(self._sized))).calls
                self._sized[batch] = found
        return found

    def kept(self, function: Any, weights: list[torch.Tensor]) -> list[torch.Tensor]:
        state = self._state_of(function, weights, weights[0].device) if weights else None
        return state.kept if state is not None else function.setup(weights)

    def run(self, inputs: list[torch.Tensor], weights: list[torch.Tensor]) -> list[torch.Tensor]:
        sized = self.at(int(inputs[0].shape[0]))
        before = sized.reference_calls
        outputs = sized.run(inputs, weights)
        self.reference_calls += sized.reference_calls - before
        return outputs

    def direct(self, inputs: list[torch.Tensor], weights: list[torch.Tensor]) -> Any:
        return self.at(int(inputs[0].shape[0])).direct(inputs, weights)

    @property
    def calls(self) -> int:
        return self._counted + self._gone + sum([s.calls for s in list(self._sized.values())])

    def _fake(self, inputs: list[torch.Tensor], weights: list[torch.Tensor]) -> list[torch.Tensor]:
        batch = inputs[0].shape[0]
        types, head = self.template["types"], self.template["head"]
        for t, d in zip(inputs, head["inputs"]):
            wanted = d["shape"]
            if str(t.dtype) != f"torch.{d['dtype']}" or t.dim() != len(wanted) or any(
                    [not isinstance(w, dict) and n != w for n, w in zip(t.shape, wanted)]):
                raise RuntimeError(f"input {d['name']} is {t.dtype} {list(t.shape)}, and cudal1::{self.name} was made for "
                                   f"{d['dtype']} {['batch' if isinstance(w, dict) else w for w in wanted]}")
        outputs = [at_batch(types[name], batch) for name in head["outputs"]]
        return [inputs[0].new_empty_strided(d["shape"], d["strides"], dtype=getattr(torch, d["dtype"])) for d in outputs]

    def _backward(self, ctx: Any, gradients: list[torch.Tensor | None]) -> Any:
        if any([g is None for g in gradients]):
            batch = ctx.saved_tensors[0].shape[0]
            like = next(g for g in gradients if g is not None)
            types = self.template["types"]
            shapes = [(at_batch(types[n]["shape"], batch), types[n]["dtype"]) for n in self.template["head"]["outputs"]]
            gradients = [g if g is not None else like.new_zeros(shape, dtype=getattr(torch, dtype))
                         for g, (shape, dtype) in zip(gradients, shapes)]
        return super()._backward(ctx, gradients)

    def _recompute(self, gradients: list[torch.Tensor], inputs: list[torch.Tensor], weights: list[torch.Tensor],
                   wanted: list[int]) -> list[torch.Tensor]:
        return super()._recompute(gradients, inputs, weights, wanted) if int(inputs[0].shape[0]) == self.tuned else \
            self.at(int(inputs[0].shape[0]))._recompute(gradients, inputs, weights, wanted)


class RangeCase(Case):
    """What a call must look like to run a variant of a range."""

    operator: RangeOperator

    def fits(self, inputs: list[torch.Tensor]) -> bool:
        o = self.operator
        declared = o.template["head"]["inputs"]
        if len(inputs) != len(declared) or inputs[0].dim() == 0:
            return False
        batch = inputs[0].shape[0]
        if not (o.low <= batch and batch <= o.high) or o.multiple > 1 and batch % o.multiple != 0:
            return False
        for t, d, (dtype, _) in zip(inputs, declared, self.key):
            if t.dtype != dtype or t.dim() != len(d["shape"]):
                return False
            if not all([n == (batch if isinstance(w, dict) else w) for n, w in zip(t.shape, d["shape"])]):
                return False
        return True

    def text(self) -> str:
        of = f", multiples of {self.operator.multiple}" if self.operator.multiple > 1 else ""
        return f"{self.operator.low}..{self.operator.high}{of}"
