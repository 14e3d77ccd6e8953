"""The modules of a model whose mode, training or evaluation, decides what forward computes."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from .source import OnCpu
from .state import Watch
from .tracing import forward_only, whole_recurrence


def _without_idle_mode(func: Any, args: tuple) -> tuple:
    """In a recurrent operator, training turns dropout between its layers on, if it has any."""
    given = {a.name: value for a, value in zip(func._schema.arguments, args)}
    if "num_layers" in given and given.get("dropout", 0) == 0:
        given.pop("train", None)
    return tuple(given.values())


class _Calls(TorchDispatchMode):
    """The operators that are called, and where their tensors come from."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.numbers: dict[int, int] = {}
        self.alive: list[torch.Tensor] = []  # so that no other tensor gets the same id

    def _plain(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return repr(value)
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.numbers)
            self.alive.append(value)
        return self.numbers[id(value)]

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace == "prim":  # asks a tensor's device
            return result
        args = _without_idle_mode(func, args)
        told = torch.utils._pytree.tree_map(self._plain, (args, kwargs, result))
        self.lines.append(f"{func} {told}")
        return result


@contextlib.contextmanager
def _noting_reads(read: set[torch.nn.Module]) -> Iterator[None]:
    """While it is, modules are noted whose `training` is read before forward itself sets it."""
    written: set[torch.nn.Module] = set()

    def get(module: torch.nn.Module) -> bool:
        if module not in written:
            read.add(module)
        return module.__dict__["training"]

    def put(module: torch.nn.Module, value: bool) -> None:
        written.add(module)
        module.__dict__["training"] = value

    torch.nn.Module.training = property(get, put)
    try:
        yield
    finally:
        del torch.nn.Module.training


@contextlib.contextmanager
def _slow_attention() -> Iterator[None]:
    """nn.TransformerEncoder computes the same in one operator in evaluation mode."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _calls(model: torch.nn.Module, arguments: list[Any], read: set[torch.nn.Module]) -> list[str]:
    """Of one call with tensors that have no values."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    given = torch.utils._pytree.tree_map(
        lambda x: mode.from_tensor(x) if isinstance(x, torch.Tensor) else x, arguments
    )
    calls = _Calls()
    watch = Watch(model, lambda result: None)
    with torch.no_grad(), forward_only(), OnCpu(), whole_recurrence(), _slow_attention(), watch.entered():
        with _noting_reads(read), mode, calls:
            model(*given)
    return calls.lines


def that_matter(model: torch.nn.Module, arguments: list[Any]) -> dict[str, list[str]] | None:
    """The names of modules in each mode; none where every mode gives the same operators. None where a call without
    values cannot tell."""
    read: set[torch.nn.Module] = set()
    try:
        usual = _calls(model, arguments, read)
    except Exception:  # noqa: BLE001: whatever the model does; the recording says what is wrong
        return None
    modes: dict[str, list[str]] = {"training": [], "evaluation": []}
    for name, module in model.named_modules():
        if module in read:
            modes["training" if module.training else "evaluation"].append(name)
    before = {module: module.training for module in read}
    for module in read:
        module.training = not module.training
    try:
        if usual == _calls(model, arguments, set()):
            return {"training": [], "evaluation": []}
    except Exception:  # noqa: BLE001: forward refuses the other mode
        return modes
    finally:
        for module, training in before.items():
            module.training = training
    return modes
