"""Regions of torch.autocast: the casts that PyTorch makes there, as steps."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

# Why a program is not compared with its model where there is no GPU.
UNLIKE_CPU = 'a CPU does not cast as torch.autocast("cuda") does'


@dataclasses.dataclass(frozen=True)
class Region:
    device: str  # as it was written: cuda, cpu
    dtype: torch.dtype

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """On a machine without the device, too: tensors without values have casts there."""
        before = torch.is_autocast_enabled(self.device), torch.get_autocast_dtype(self.device), torch.is_autocast_cache_enabled()
        torch.set_autocast_enabled(self.device, True)
        torch.set_autocast_dtype(self.device, self.dtype)
        torch.set_autocast_cache_enabled(False)
        try:
            yield
        finally:
            torch.set_autocast_enabled(self.device, before[0])
            torch.set_autocast_dtype(self.device, before[1])
            torch.set_autocast_cache_enabled(before[2])


class _Calls(TorchDispatchMode):
    """The operators that a call comes down to."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[torch._ops.OpOverload, list[torch.Tensor], torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace != "prim":  # asks a tensor's device
            tensors = [x for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
            self.calls.append((func, tensors, result))
        return result

    def names(self) -> list[tuple[str, list[torch.dtype]]]:
        return [(str(func), [t.dtype for t in tensors]) for func, tensors, _ in self.calls]


def _on(device: str, t: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device)


def casts_of(call: Any, tensors: list[torch.Tensor], region: Region, mode: Any) -> list[torch.dtype] | None:
    """Of a call's tensors (`call(tensors)` makes it) the types that it is made with in the region. None: it casts what it
    computes on the way, too."""
    with mode:
        given = [_on(region.device, t) for t in tensors]
        with region.entered(), _Calls() as inside:
            call(given)
        dtypes = [t.dtype for t in given]
        first = 0
        for func, taken, result in inside.calls:
            place = next((i for i, t in enumerate(given) if taken and taken[0] is t), None)
            if func is not aten._to_copy.default or place is None:
                break
            dtypes[place] = result.dtype
            first += 1
        with _Calls() as plain:
            call([t.to(dtype) if t.dtype != dtype else t for t, dtype in zip(given, dtypes)])
    casts = sum(t.dtype != dtype for t, dtype in zip(given, dtypes))
    return dtypes if inside.names()[first:] == plain.names()[casts:] else None


_follows = [True]  # whether torch.autocast("cuda") is that of the CPU, too


def install() -> None:
    """From here on torch.autocast("cuda") is not switched off where there is no GPU, and is that of the CPU, too: what
    forward asks the types of tensors for is nearly what it would be there."""
    from torch.cuda.amp import common

    common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = lambda *_, **__: True
    own = torch.amp.autocast_mode.autocast
    enter, leave = own.__enter__, own.__exit__
    before: list[tuple[bool, torch.dtype]] = []

    def entered(self: Any) -> Any:
        before.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")))
        result = enter(self)
        if self.device == "cuda" and _follows[0]:
            torch.set_autocast_enabled("cpu", self._enabled)
            torch.set_autocast_dtype("cpu", self.fast_dtype)
        return result

    def left(self: Any, *error: Any) -> Any:
        result = leave(self, *error)
        enabled, dtype = before.pop()
        torch.set_autocast_enabled("cpu", enabled)
        torch.set_autocast_dtype("cpu", dtype)
        return result

    own.__enter__, own.__exit__ = entered, left


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """While it is, torch.autocast("cuda") changes no type that forward sees."""
    _follows[0] = False
    try:
        yield
    finally:
        _follows[0] = True
