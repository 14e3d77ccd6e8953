"""Values that no input and no drawn weight has a part in, as those of a mask of ones that forward makes: torch.export
records without values and could not tell what a branch on one does, so they are computed beside the recording."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.utils._python_dispatch import _disable_current_modes

# A call of these asks for values as Python has them.
_ASKS = {"item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__complex__"}
# Of their operand only the type counts.
_OF_TYPE_ALONE = {"ones_like", "zeros_like", "full_like", "new_zeros", "new_ones", "new_full", "new_tensor"}
# Beside tensors they take sizes, which may be tensors of one element.
_TAKE_SIZES = {
    "__getitem__", "__setitem__", "arange", "expand", "eye", "full", "linspace", "narrow", "new_full", "new_ones",
    "new_zeros", "ones", "pad", "repeat", "reshape", "split", "tile", "unflatten", "view", "zeros",
}  # fmt: skip
_RANDOM = (
    "rand", "bernoulli", "normal", "uniform", "exponential", "multinomial", "dropout", "poisson", "cauchy", "geometric",
)  # fmt: skip
_OPERATORS_IN_PLACE = {"__set__", "__setitem__"} | {
    f"__i{word}__"
    for word in ("add", "and", "div", "floordiv", "lshift", "mod", "mul", "or", "pow", "rshift", "sub", "truediv", "xor")
}
_LARGEST = 1 << 22  # elements: a mask of 2048 x 2048


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, slice):
        return _tensors([value.start, value.stop, value.step])
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [t for item in items for t in _tensors(item)]


def _mapped(value: Any, f: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return f(value)
    if isinstance(value, slice):
        return slice(*(_mapped(part, f) for part in (value.start, value.stop, value.step)))
    if isinstance(value, dict):
        return {key: _mapped(item, f) for key, item in value.items()}
    if type(value) in (list, tuple, torch.Size):
        return type(value)([_mapped(item, f) for item in value])
    return value


def _writes(name: str, kwargs: dict[str, Any]) -> bool:
    in_place = name.endswith("_") and not name.endswith("__") or name in _OPERATORS_IN_PLACE
    return in_place or kwargs.get("out") is not None or bool(kwargs.get("inplace"))


class KnownValues(torch.overrides.TorchFunctionMode):
    """While it is entered, a call that asks for a value that is known gets it. `buffers`: pairs of a tensor as the
    recording has it and as the model has it, by path; `asked`: those that an answer was made of are added."""

    def __init__(self, buffers: dict[str, tuple[torch.Tensor, torch.Tensor]], asked: set[str]) -> None:
        super().__init__()
        self._asked = asked
        self._known: dict[int, tuple[torch.Tensor, torch.Tensor, frozenset[str]]] = {}  # by id, kept alive
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            for path, (recorded, real) in buffers.items():
                if type(real) is torch.Tensor and real.layout is torch.strided and real.numel() <= _LARGEST:
                    self._keep(recorded, real.detach().clone(), frozenset([path]))

    def _keep(self, recorded: torch.Tensor, real: torch.Tensor, made_of: frozenset[str]) -> None:
        self._known[id(recorded)] = (recorded, real, made_of)

    def _find(self, tensor: torch.Tensor) -> tuple[torch.Tensor, frozenset[str]] | None:
        found = self._known.get(id(tensor))
        return found[1:] if found else None

    def _forget(self, memory: int) -> None:
        self._known = {k: v for k, v in self._known.items() if v[1].untyped_storage().data_ptr() != memory}

    def _number(self, tensor: torch.Tensor) -> Any:
        """Of one element that is a whole number, where it is known."""
        found = self._find(tensor)
        number = tensor.dtype is not torch.bool and not tensor.dtype.is_floating_point and not tensor.dtype.is_complex
        if found is None or tensor.dim() or not number:
            return tensor
        self._asked |= found[1]
        return found[0].item()

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name in _ASKS and args and isinstance(args[0], torch.Tensor):
            found = self._find(args[0])
            if found is not None:
                self._asked |= found[1]
                with _disable_current_modes(), torch._C.DisableTorchFunction():
                    return getattr(found[0], name)(*args[1:], **kwargs)
            return func(*args, **kwargs)
        if name in _TAKE_SIZES and len(_tensors((args, kwargs))) > 0:
            own = 1 if args and isinstance(args[0], torch.Tensor) else 0
            args, kwargs = args[:own] + _mapped(args[own:], self._number), _mapped(kwargs, self._number)
        given = _tensors((args, kwargs))
        known = [self._find(t) for t in given]
        out = func(*args, **kwargs)
        if name in _OF_TYPE_ALONE and known:
            known = known[1:] if known[0] is None else known
        can_follow = all(k is not None for k in known) and not any(word in name for word in _RANDOM)
        if can_follow and self._follow(name, func, args, kwargs, out):
            return out
        if _writes(name, kwargs):
            for k in known:
                if k is not None:
                    self._forget(k[0].untyped_storage().data_ptr())
        return out

    def _follow(self, name: str, func: Any, args: tuple, kwargs: dict, out: Any) -> bool:
        """Computes the same with values; whether that was possible."""
        results = [out] if isinstance(out, torch.Tensor) else list(out) if isinstance(out, (list, tuple)) else []
        if not all(isinstance(r, torch.Tensor) for r in results) or not results and not _writes(name, kwargs):
            return False
        if "empty" in name or name == "__set__" or any(r.numel() > _LARGEST for r in results):
            return False
        made_of = frozenset[str]().union(*(k[1] for t in _tensors((args, kwargs)) if (k := self._find(t)) is not None))

        def real_of(tensor: torch.Tensor) -> torch.Tensor:
            found = self._find(tensor)
            return found[0] if found is not None else torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)

        try:
            with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
                real = func(*_mapped(args, real_of), **_mapped(kwargs, real_of))
        except Exception:  # noqa: BLE001: what a recording can do and a call cannot stays unknown
            return False
        reals = [real] if isinstance(real, torch.Tensor) else list(real) if isinstance(real, (list, tuple)) else []
        for r, value in zip(results, reals):
            if type(value) is torch.Tensor and r.shape == value.shape and r.dtype == value.dtype:
                before = self._find(r)
                self._keep(r, value, made_of | (before[1] if before else frozenset()))
        if _writes(name, kwargs):  # views of what was written into have the new values, and are made of more
            memory = {k[0].untyped_storage().data_ptr() for t in _tensors((args, kwargs)) if (k := self._find(t)) is not None}
            for key, (recorded, value, of) in list(self._known.items()):
                if value.untyped_storage().data_ptr() in memory:
                    self._known[key] = (recorded, value, of | made_of)
        return True
