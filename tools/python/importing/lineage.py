"""Which factory made a tensor of get_inputs, and what was done to its values after that."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class Lineage:
    """A distribution that the values have by how they were made. `made`: in words, for refusals.

    All values of a draw may be multiplied by one random number, uniform on [factor_low, factor_high), which
    is 1 as a rule."""

    kind: str  # uniform, normal, integer, bernoulli, simplex, constant
    made: str
    low: float = 0.0  # uniform: low to high; integer: low, low + step, ..., below high
    high: float = 1.0
    step: float = 1.0
    mean: float = 0.0  # normal
    std: float = 1.0
    probability: float = 0.5  # bernoulli
    value: float = 0.0  # constant
    of: Lineage | None = None  # simplex: of what each row is the softmax
    factor_low: float = 1.0
    factor_high: float = 1.0

    @property
    def has_factor(self) -> bool:
        return (self.factor_low, self.factor_high) != (1.0, 1.0)


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
_MULTIPLIES = ("mul", "multiply", "mul_", "__mul__", "__rmul__", "__imul__")


def _number(x: Any) -> float | None:
    return float(x) if isinstance(x, _NUMBERS) and not isinstance(x, bool) else None


def _integers(low: float, step: float, count: float, made: str) -> Lineage:
    """`count` numbers, `step` apart, of which `low` is the least (or, below a negative step, the largest)."""
    low, step = (low, step) if step > 0 else (low + (count - 1) * step, -step)
    return Lineage("integer", made, low=low, high=low + count * step, step=step)


def _scaled(source: Lineage, a: float, b: float) -> Lineage | None:
    """The lineage of a * values + b."""
    made = f"{source.made} * {a:g} + {b:g}"
    if source.kind == "constant":
        return dataclasses.replace(source, value=a * source.value + b, made=made)
    if a == 0 or (source.has_factor and b != 0):
        return None
    if source.kind == "uniform":
        low, high = sorted((a * source.low + b, a * source.high + b))
        return dataclasses.replace(source, low=low, high=high, made=made)
    if source.kind == "normal":
        return dataclasses.replace(source, mean=a * source.mean + b, std=abs(a) * source.std, made=made)
    if source.kind == "bernoulli" and source.probability == 0.5:
        return _integers(b, a, 2, made)
    if source.kind == "integer":
        count = round((source.high - source.low) / source.step)
        return _integers(a * source.low + b, a * source.step, count, made)
    return None


def _arithmetic(name: str, source: Lineage, number: float, reversed_: bool) -> Lineage | None:
    if name in _MULTIPLIES:
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
    if source.kind != "uniform" or source.high <= source.low or source.has_factor:
        return None
    below = min(max((number - source.low) / (source.high - source.low), 0.0), 1.0)
    made = f"{source.made} compared with {number:g}"
    if name in ("lt", "le", "__lt__", "__le__", "less"):
        return Lineage("bernoulli", made, probability=below)
    if name in ("gt", "ge", "__gt__", "__ge__", "greater"):
        return Lineage("bernoulli", made, probability=1 - below)
    return None


def _argument(args: tuple, kwargs: dict, index: int, name: str, default: Any = None) -> Any:
    return kwargs.get(name, args[index] if len(args) > index else default)


def _whole_numbers(name: str, args: tuple, kwargs: dict) -> Lineage | None:
    """Of randint and random_."""
    args = args[1:] if name in ("randint_like", "random_") else args
    bounds = [a for a in args[:2] if isinstance(a, int)]
    first, last = ("from", "to") if name == "random_" else ("low", "high")
    low = kwargs.get(first, bounds[0] if len(bounds) == 2 else 0)
    high = kwargs.get(last, bounds[-1] if bounds else None)
    made = name if name == "random_" else f"torch.{name}"
    return Lineage("integer", made, low=low, high=high) if high is not None else None


def _continuous(name: str, args: tuple, kwargs: dict) -> Lineage | None:
    """Of uniform_, normal_ and torch.normal with numbers."""
    first, second = ("from", "to") if name == "uniform_" else ("mean", "std")
    at = 0 if name == "normal" else 1
    a = _number(_argument(args, kwargs, at, first, 0.0))
    b = _number(_argument(args, kwargs, at + 1, second, 1.0))
    if a is None or b is None:
        return None
    return Lineage("uniform", name, low=a, high=b) if name == "uniform_" else Lineage("normal", name, mean=a, std=b)


def _factory(name: str, args: tuple, kwargs: dict) -> Lineage | None:
    if name in ("rand", "rand_like"):
        return Lineage("uniform", f"torch.{name}")
    if name in ("randn", "randn_like"):
        return Lineage("normal", f"torch.{name}")
    if name in ("randint", "randint_like", "random_"):
        return _whole_numbers(name, args, kwargs)
    if name in ("zeros", "zeros_like", "ones", "ones_like", "zero_"):
        return Lineage("constant", f"torch.{name}", value=float(name.startswith("ones")))
    if name in ("full", "full_like", "fill_"):
        value = _number(_argument(args, kwargs, 1, "value" if name == "fill_" else "fill_value"))
        return Lineage("constant", f"torch.{name}", value=value) if value is not None else None
    if name in ("uniform_", "normal_", "normal"):
        return _continuous(name, args, kwargs)
    if name in ("bernoulli", "bernoulli_"):
        p = _number(_argument(args, kwargs, 1, "p", 0.5 if name == "bernoulli_" else None))
        return Lineage("bernoulli", f"torch.{name}", probability=p) if p is not None else None
    return None


def _version(t: torch.Tensor) -> int:
    return 0 if t.is_inference() else t._version


class Recorder(torch.overrides.TorchFunctionMode):
    """Follows the tensors that are made while it is active."""

    def __init__(self) -> None:
        super().__init__()
        # By id, and kept alive so that ids stay theirs; with PyTorch's count of in-place changes, which views share.
        # The last number: what the factor was in this draw.
        self._known: dict[int, tuple[torch.Tensor, int, Lineage, float]] = {}

    def of(self, tensor: torch.Tensor) -> tuple[Lineage | None, float]:
        """The distribution, and the factor that all values of this draw have."""
        found = self._known.get(id(tensor))
        unchanged = found and found[0] is tensor and found[1] == _version(tensor)
        return found[2:] if unchanged else (None, 1.0)

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        # First: an operator in place changes what it takes.
        lineage, factor = self._follow(name, args, kwargs)
        source = next((a for a in args if isinstance(a, torch.Tensor)), None)
        before = (source.dtype, source.numel()) if source is not None else None
        out = func(*args, **kwargs)
        if isinstance(out, torch.Tensor):
            if name == "__get__" and (before is None or before[1] != out.numel()):
                lineage = None
            if lineage is not None and before is not None and before[0] != out.dtype:
                lineage = self._converted(lineage, before[0], out.dtype)
            self._known.pop(id(out), None)
            if lineage is not None:
                self._known[id(out)] = (out, _version(out), lineage, factor)
        return out

    def _follow(self, name: str, args: tuple, kwargs: dict) -> tuple[Lineage | None, float]:
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
        if name == "bernoulli" and len(tensors) == 1 and len(args) + len(kwargs) == 1:
            source = self.of(tensors[0])[0]
            of_number = source is not None and source.kind == "constant" and 0 <= source.value <= 1
            return (Lineage("bernoulli", "torch.bernoulli", probability=source.value) if of_number else None), 1.0
        made = _factory(name, args, kwargs)
        if made is not None:
            return made, 1.0
        if name in _MULTIPLIES and len(tensors) == len(args) == 2:
            return self._times_one_number(*tensors)
        if len(tensors) != 1:
            return None, 1.0
        source, factor = self.of(tensors[0])
        return (self._changed(name, source, args, kwargs) if source is not None else None), factor

    def _times_one_number(self, a: torch.Tensor, b: torch.Tensor) -> tuple[Lineage | None, float]:
        """torch.rand(4, 4) * torch.rand(()): a random number for the whole tensor."""
        values, number = (a, b) if b.dim() == 0 else (b, a)
        source, factor = self.of(number)
        of_values = self.of(values)[0]
        if source is None or of_values is None or number.dim() != 0 or source.has_factor or of_values.has_factor:
            return None, 1.0
        if source.kind == "constant":
            return _scaled(of_values, source.value, 0), 1.0
        if source.kind != "uniform" or of_values.kind not in ("uniform", "normal"):
            return None, 1.0
        made = f"{of_values.made} times one random number"
        scaled = dataclasses.replace(of_values, made=made, factor_low=source.low, factor_high=source.high)
        return scaled, float(number)

    def _changed(self, name: str, source: Lineage, args: tuple, kwargs: dict) -> Lineage | None:
        if name in _MOVES or name in ("__get__", "to", "type", "long", "int", "bool", "type_as"):
            return source
        numbers = [n for n in map(_number, args) if n is not None]
        if len(args) == 2 and len(numbers) == 1 and not kwargs:
            changed = _arithmetic(name, source, numbers[0], not isinstance(args[0], torch.Tensor))
            return changed or _truth(name, source, numbers[0])
        if name in ("neg", "__neg__", "neg_"):
            return _scaled(source, -1, 0)
        if name in ("round", "round_") and len(args) == 1 and not kwargs:
            if (source.kind, source.low, source.high, source.has_factor) == ("uniform", 0.0, 1.0, False):
                return Lineage("integer", "torch.round of torch.rand", low=0, high=2)
        if name in ("sign", "sgn") and (source.kind, source.mean) == ("normal", 0.0):
            return Lineage("integer", "the signs of normal values", low=-1, high=3, step=2)
        if name == "softmax" and source.kind in ("normal", "uniform"):
            dim = _argument(args, kwargs, 1, "dim")
            tensor = next(a for a in args if isinstance(a, torch.Tensor))
            if dim in (-1, tensor.dim() - 1):
                factor = {"factor_low": source.factor_low, "factor_high": source.factor_high}
                return Lineage("simplex", f"torch.softmax of {source.made}", of=source, **factor)
        return None

    @staticmethod
    def _converted(source: Lineage, before: torch.dtype, after: torch.dtype) -> Lineage | None:
        """Values of another element type."""
        if after == torch.bool and source.kind == "integer":
            zeros = (0 - source.low) / source.step
            count = round((source.high - source.low) / source.step)
            some = zeros == round(zeros) and 0 <= zeros < count
            return Lineage("bernoulli", source.made, probability=1 - 1 / count) if some else None
        if source.kind == "constant":
            value = float(source.value != 0) if after == torch.bool else source.value
            return dataclasses.replace(source, value=value if after.is_floating_point else float(int(value)))
        if source.kind == "bernoulli":
            numbers = before == torch.bool and source.probability == 0.5
            return _integers(0, 1, 2, source.made) if numbers else source
        if source.kind == "integer":
            whole = all(x == round(x) for x in (source.low, source.step))
            return source if whole or after.is_floating_point else None
        return source if before.is_floating_point and after.is_floating_point else None
