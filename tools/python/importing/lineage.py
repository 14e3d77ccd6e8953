"""Which factory made a tensor of get_inputs, and what was done to its values after that."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class Lineage:
    """The distribution of values that follows from how they were made. `made`: in words, for refusals."""

    kind: str  # uniform, normal, integer, bernoulli, signs, simplex, constant
    made: str
    low: float = 0.0  # uniform; integer: low to high - 1
    high: float = 1.0
    mean: float = 0.0  # normal
    std: float = 1.0
    probability: float = 0.5  # bernoulli
    value: float = 0.0  # constant


# Functions that change the layout or the type of values, but not their distribution.
_MOVES = {
    "view",
    "reshape",
    "permute",
    "transpose",
    "t",
    "contiguous",
    "clone",
    "detach",
    "flatten",
    "unsqueeze",
    "squeeze",
    "float",
    "double",
    "half",
    "bfloat16",
    "cuda",
    "cpu",
    "requires_grad_",
    "swapaxes",
    "movedim",
    "view_as",
    "reshape_as",
    "unflatten",
    "pin_memory",
    "tril",
    "triu",
    "diag",
    "diag_embed",
    "ravel",
    "mT",
    "adjoint",
}
_NUMBERS = (int, float)


def _number(x: Any) -> float | None:
    return float(x) if isinstance(x, _NUMBERS) and not isinstance(x, bool) else None


def _scaled(source: Lineage, a: float, b: float) -> Lineage | None:
    """The lineage of a * values + b."""
    made = f"{source.made} * {a:g} + {b:g}"
    if source.kind == "uniform" and a != 0:
        low, high = sorted((a * source.low + b, a * source.high + b))
        return dataclasses.replace(source, low=low, high=high, made=made)
    if source.kind == "normal" and a != 0:
        return dataclasses.replace(source, mean=a * source.mean + b, std=abs(a) * source.std, made=made)
    if source.kind == "constant":
        return dataclasses.replace(source, value=a * source.value + b, made=made)
    if source.kind == "bernoulli" and source.probability == 0.5:
        source = Lineage("integer", source.made, low=0, high=2)
    if source.kind == "integer":
        if a == 1 and b == int(b):
            return dataclasses.replace(source, low=source.low + b, high=source.high + b, made=made)
        if source.high - source.low == 2 and {a * source.low + b, a * source.low + a + b} == {-1, 1}:
            return Lineage("signs", made)
        if source.high - source.low == 2 and {a * source.low + b, a * source.low + a + b} == {0, 1}:
            return Lineage("integer", made, low=0, high=2)
    return None


def _arithmetic(name: str, source: Lineage, number: float, reversed_: bool) -> Lineage | None:
    if name in ("mul", "multiply", "mul_", "__mul__", "__rmul__", "__imul__"):
        return _scaled(source, number, 0)
    if name in ("add", "add_", "__add__", "__radd__", "__iadd__"):
        return _scaled(source, 1, number)
    if name in ("rsub", "__rsub__") or (name in ("sub", "subtract", "__sub__") and reversed_):
        return _scaled(source, -1, number)
    if name in ("sub", "subtract", "sub_", "__sub__", "__isub__"):
        return _scaled(source, 1, -number)
    if (
        name in ("div", "divide", "true_divide", "div_", "__truediv__", "__itruediv__")
        and not reversed_
        and number
    ):
        return _scaled(source, 1 / number, 0)
    return None


def _truth(name: str, source: Lineage, number: float) -> Lineage | None:
    """A comparison of uniform values with a number."""
    if source.kind != "uniform" or source.high <= source.low:
        return None
    below = min(max((number - source.low) / (source.high - source.low), 0.0), 1.0)
    made = f"{source.made} compared with {number:g}"
    if name in ("lt", "le", "__lt__", "__le__", "less"):
        return Lineage("bernoulli", made, probability=below)
    if name in ("gt", "ge", "__gt__", "__ge__", "greater"):
        return Lineage("bernoulli", made, probability=1 - below)
    return None


def _factory(name: str, args: tuple, kwargs: dict) -> Lineage | None:
    if name in ("rand", "rand_like"):
        return Lineage("uniform", f"torch.{name}")
    if name in ("randn", "randn_like"):
        return Lineage("normal", f"torch.{name}")
    if name in ("randint", "randint_like"):
        args = args[1:] if name == "randint_like" else args
        bounds = [a for a in args[:2] if isinstance(a, int)]
        low = kwargs.get("low", bounds[0] if len(bounds) == 2 else 0)
        high = kwargs.get("high", bounds[-1] if bounds else None)
        return Lineage("integer", f"torch.{name}", low=low, high=high) if high is not None else None
    if name in ("zeros", "zeros_like", "ones", "ones_like"):
        return Lineage("constant", f"torch.{name}", value=float(name.startswith("ones")))
    if name in ("full", "full_like"):
        value = _number(kwargs.get("fill_value", args[1] if len(args) > 1 else None))
        return Lineage("constant", f"torch.{name}", value=value) if value is not None else None
    if name in ("uniform_", "normal_"):
        first, second = ("from", "to") if name == "uniform_" else ("mean", "std")
        numbers = [
            kwargs.get(first, args[1] if len(args) > 1 else 0.0),
            kwargs.get(second, args[2] if len(args) > 2 else 1.0),
        ]
        if any(_number(n) is None for n in numbers):
            return None
        a, b = float(numbers[0]), float(numbers[1])
        return (
            Lineage("uniform", name, low=a, high=b)
            if name == "uniform_"
            else Lineage("normal", name, mean=a, std=b)
        )
    if name == "normal" and len(args) >= 2 and all(_number(a) is not None for a in args[:2]):
        return Lineage("normal", "torch.normal", mean=float(args[0]), std=float(args[1]))
    return None


class Recorder(torch.overrides.TorchFunctionMode):
    """Follows the tensors that are made while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[
            int, tuple[torch.Tensor, Lineage]
        ] = {}  # by id; kept alive so that ids stay unique

    def of(self, tensor: torch.Tensor) -> Lineage | None:
        found = self._known.get(id(tensor))
        return found[1] if found and found[0] is tensor else None

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            name = getattr(func, "__name__", "")
            lineage = self._follow(name, args, kwargs or {}, out)
            self._known.pop(id(out), None)
            if lineage is not None:
                self._known[id(out)] = (out, lineage)
        return out

    def _follow(self, name: str, args: tuple, kwargs: dict, out: torch.Tensor) -> Lineage | None:
        made = _factory(name, args, kwargs)
        if made is not None:
            return made
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
        if len(tensors) != 1:
            return None
        source = self.of(tensors[0])
        if source is None:
            return None
        if name in _MOVES or (name == "__get__" and out.numel() == tensors[0].numel()):
            return source
        if name in ("to", "type", "long", "int", "bool", "type_as"):
            return self._converted(source, tensors[0].dtype, out.dtype)
        numbers = [n for n in map(_number, args) if n is not None]
        if len(args) == 2 and len(numbers) == 1 and not kwargs:
            return _arithmetic(name, source, numbers[0], not isinstance(args[0], torch.Tensor)) or _truth(
                name, source, numbers[0]
            )
        if name in ("neg", "__neg__"):
            return _scaled(source, -1, 0)
        if name == "softmax" and (source.kind, source.mean, source.std) == ("normal", 0.0, 1.0):
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if dim in (-1, out.dim() - 1):
                return Lineage("simplex", "torch.softmax of normal values")
        return None

    @staticmethod
    def _converted(source: Lineage, before: torch.dtype, after: torch.dtype) -> Lineage | None:
        if after == torch.bool and source.kind == "integer" and source.low <= 0 < source.high:
            return Lineage("bernoulli", source.made, probability=1 - 1 / (source.high - source.low))
        if after == torch.bool:
            return source if before == torch.bool else None
        if source.kind == "bernoulli":
            exact = source.probability == 0.5
            return (
                Lineage("integer", source.made, low=0, high=2) if exact and before == torch.bool else source
            )
        whole = source.kind in ("integer", "signs", "constant")
        return source if whole or (before.is_floating_point and after.is_floating_point) else None
