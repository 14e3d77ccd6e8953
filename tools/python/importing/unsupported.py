"""Features of PyTorch that an import cannot record, each refused in one sentence with what to write instead."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import Any, Iterator

import torch

from . import lines
from .refusal import Refused

# What torch.export records of torch.vmap, beside operators on tensors that have a hidden dimension.
_OF_VMAP = (
    "lazy_load_decompositions",
    "_vmap_increment_nesting",
    "_vmap_decrement_nesting",
    "_add_batch_dim",
    "_remove_batch_dim",
)


def check_model(model: torch.nn.Module) -> None:
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise Refused(
                f"its module {path or 'Model'} was made by torch.jit ({module.original_name}), which torch.export cannot "
                "record: keep the Python module that it was made of"
            )


def check_dense(where: str, tensor: torch.Tensor) -> None:
    if tensor.is_nested:
        raise Refused(
            f"{where} is a nested tensor, whose rows differ in shape, and a task's tensors have one shape: give it padded "
            "(torch.nested.to_padded_tensor), with a mask of what is padding"
        )


def check_call(name: str, where: str) -> None:
    """Of a function in a recorded graph that is no operator."""
    if name in _OF_VMAP:
        raise Refused(
            f"it calls torch.vmap{where}, whose hidden dimension a task's steps cannot express: write the operators with "
            "that dimension (broadcasting, torch.bmm, torch.einsum)"
        )


def refusal_of(error: BaseException, where: str) -> Refused | None:
    """Of what torch.export has raised."""
    if "Compiled functions can't take variable number of arguments" in str(error) or "_functorch" in str(error):
        return Refused(
            f"it takes a derivative by torch.func{where}, which torch.export cannot record: write the derivative's formula "
            "with operators of torch"
        )
    alias = re.search(r"custom \(non-ATen\) operator whose output has alias annotations: (\w+::\w+)", str(error))
    if alias:
        return Refused(
            f"it calls {alias[1]}{where}, and a task has operators of ATen alone: write it with those of torch"
        )
    if "nested_tensor" in str(error):
        return Refused(
            f"it makes a nested tensor{where}, whose rows differ in shape, and a task's tensors have one shape: compute "
            "with padded rows and a mask"
        )
    return None


@contextlib.contextmanager
def without_triton() -> Iterator[None]:
    """While a graph is recorded, the launch of a Triton kernel is refused: there are no tensors that it could run on."""
    jit = sys.modules.get("triton.runtime.jit")
    if jit is None:
        yield
        return
    before = jit.KernelInterface.__getitem__

    def launch(kernel: Any, _: Any) -> Any:
        while hasattr(kernel, "fn"):  # of an autotuner: what it tunes
            kernel = kernel.fn
        raise Refused(
            f"it launches the Triton kernel {getattr(kernel, '__name__', 'of its own')}{lines.of_caller()}, and a task has "
            "operators of PyTorch alone: write what the kernel computes with these, and the search writes kernels for it"
        )

    jit.KernelInterface.__getitem__ = launch
    try:
        yield
    finally:
        jit.KernelInterface.__getitem__ = before
