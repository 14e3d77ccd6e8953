"""The context in which a model is recorded, and the meaning of failures there."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import torch

from . import lines, unsupported
from .program import op_name
from .refusal import Refused
from .source import one_line

aten = torch.ops.aten

_DATA_DEPENDENT = (
    "DataDependentOutputException",
    "GuardOnDataDependentSymNode",
    "DynamicOutputShapeException",
    "UserError",
)


def _recurrent_shapes(layers_first_hidden: bool) -> Any:
    """The result types of a recurrent operator, without the loop over time of its decomposition."""

    def run(
        input: torch.Tensor,
        hx: Any,
        params: Any,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple:
        states = list(hx) if layers_first_hidden else [hx]
        width = states[0].shape[-1] * (2 if bidirectional else 1)
        out = input.new_empty((*input.shape[:-1], width))
        if batch_first:
            out = input.new_empty((input.shape[1], input.shape[0], width)).transpose(0, 1)
        return (out, *(torch.empty_like(s) for s in states))

    return run


@contextlib.contextmanager
def whole_recurrence() -> Iterator[None]:
    """While a graph is recorded, recurrent operators compute shapes only: their Python decompositions loop over time,
    which takes 15 s for 512 steps."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    ops = {
        aten.lstm.input: True,
        aten.gru.input: False,
        aten.rnn_tanh.input: False,
        aten.rnn_relu.input: False,
    }
    before = {op: dict(op.py_kernels) for op in ops}
    try:
        for op, two_states in ops.items():
            for k in {key, *op.py_kernels}:
                op.py_kernels[k] = _recurrent_shapes(two_states)
            op._dispatch_cache.clear()
        yield
    finally:
        for op, kernels in before.items():
            op.py_kernels.clear()
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()


@contextlib.contextmanager
def masks_as_given() -> Iterator[None]:
    """While a graph is recorded, torch.nn.Transformer and its parts apply the masks that they are given. In a call they
    compare a mask with a causal one first, which is a branch on values, and only to tell attention of it: with the mask
    the result is the same."""
    module = torch.nn.modules.transformer
    before = module._detect_is_causal_mask

    def detect(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
        return is_causal is True

    module._detect_is_causal_mask = detect
    try:
        yield
    finally:
        module._detect_is_causal_mask = before


_DROPOUTS = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")


@contextlib.contextmanager
def operands_as_results() -> Iterator[None]:
    """While a graph is recorded, what gives its operand itself does so, and not a tensor of its own, as the operators of
    these calls do in a graph: what is written into the one later is written into the other."""
    saved = [(place, name, getattr(place, name)) for place in (torch, torch._VF) for name in _DROPOUTS]

    def dropout(call: Any) -> Any:
        def called(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
            return call(input, p, train) if train and p > 0 else input

        return called

    type_as = torch.Tensor.type_as

    def typed(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        same = isinstance(other, torch.Tensor) and (self.dtype, self.device) == (other.dtype, other.device)
        return self if same else type_as(self, other)

    for place, name, call in saved:
        setattr(place, name, dropout(call))
    torch.Tensor.type_as = typed
    try:
        yield
    finally:
        del torch.Tensor.type_as  # that of its base is seen again
        for place, name, call in saved:
            setattr(place, name, call)


@contextlib.contextmanager
def bytes_as_conditions() -> Iterator[None]:
    """While a graph is recorded, torch.where takes a condition of bytes, as it does in a call."""
    saved = torch.where, torch.Tensor.where

    def chosen(condition: Any, *args: Any, **kwargs: Any) -> Any:
        as_bool = isinstance(condition, torch.Tensor) and condition.dtype == torch.uint8
        return saved[0](condition.bool() if as_bool else condition, *args, **kwargs)

    torch.where = chosen
    torch.Tensor.where = lambda self, condition, other: chosen(condition, self, other)
    try:
        yield
    finally:
        torch.where = saved[0]
        del torch.Tensor.where  # that of its base is seen again


@contextlib.contextmanager
def modules_in_their_place() -> Iterator[None]:
    """While a graph is recorded, `module.to(x.device)` does nothing where the module is there already, as in a call.
    Parameters have no values then, and could not be put in the place of others."""
    before = torch.nn.Module.to

    def to(module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
        device, dtype, _, layout = torch._C._nn._parse_to(*args, **kwargs)
        tensors = [*module.parameters(), *module.buffers()]
        moved = device is not None and any(device.type not in ("cuda", t.device.type) for t in tensors)  # see OnCpu
        cast = any(dtype is not None and (t.is_floating_point() or t.is_complex()) and t.dtype != dtype for t in tensors)
        return before(module, *args, **kwargs) if moved or cast or layout is not None else module

    torch.nn.Module.to = to
    try:
        yield
    finally:
        torch.nn.Module.to = before


@contextlib.contextmanager
def as_in_a_call() -> Iterator[None]:
    """Where a recording does otherwise than a call of the same code."""
    with masks_as_given(), operands_as_results(), bytes_as_conditions(), modules_in_their_place():
        yield


def _no_backward(*_: Any, **__: Any) -> None:
    raise Refused(
        f"it runs a backward pass (aten::backward){lines.of_caller()}, and a task is a forward pass: write the "
        "gradient's formula as forward, or optimise forward alone"
    )


@contextlib.contextmanager
def forward_only() -> Iterator[None]:
    saved = torch.Tensor.backward, torch.autograd.grad, torch.autograd.backward
    torch.Tensor.backward, torch.autograd.grad, torch.autograd.backward = (_no_backward,) * 3
    try:
        yield
    finally:
        torch.Tensor.backward, torch.autograd.grad, torch.autograd.backward = saved


def _told(cause: BaseException) -> str:
    """What PyTorch says, without what it says of its symbols for unknown numbers."""
    return one_line(cause, 200).partition(" (unhinted:")[0].rstrip(".")


def refusal_of(e: BaseException, whole: bool = True, where: str = "") -> Refused | None:
    """torch.export's error as one sentence. Without `whole`: only for dependence on values, else None.
    `where`: the line, if the error does not tell."""
    causes: list[BaseException] = []
    at: BaseException | None = e
    while at is not None and at not in causes:
        causes.append(at)
        at = at.__cause__ or at.__context__
    for cause in causes:
        if isinstance(cause, Refused):
            return cause
    for cause in causes:
        # Python's own functions say so of a number that stands for a tensor's value.
        asked = isinstance(cause, TypeError) and any(name in str(cause) for name in ("SymFloat", "SymInt", "SymBool", "FakeTensor"))
        if asked or type(cause).__name__ in _DATA_DEPENDENT:
            func = getattr(cause, "func", None)
            what = f" ({op_name(func)})" if isinstance(func, torch._ops.OpOverload) else ""
            return Refused(
                f"its shapes or its control flow depend on values{what}{lines.of_error(e) or where}{lines.in_library(e)}: {_told(cause)}; a "
                "task's steps are the same for all values, so compute with masks (torch.where) instead"
            )
    if not whole:
        return None
    known = unsupported.refusal_of(e, lines.of_error(e))
    return known or Refused(f"torch.export cannot record it: {one_line(e)}{lines.of_error(e)}{lines.in_library(e)}")
