"""Complex intermediates, as those of rotary embeddings: a task has real tensors, so each is a pair of them."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator

import torch

from .program import Value
from .refusal import Refused

aten = torch.ops.aten


@dataclasses.dataclass(eq=False)
class Complex:
    """A complex tensor of the graph, as two values of the program."""

    re: Value
    im: Value

    def fake(self) -> torch.Tensor:
        return torch.complex(self.re.fake, self.im.fake)


# What moves elements, or computes the same of both parts.
_PARTWISE = {
    "cat", "chunk", "clone", "concat", "contiguous", "expand", "expand_as", "flatten", "flip", "hstack",
    "index", "index_select", "mean", "movedim", "narrow", "neg", "permute", "repeat", "repeat_interleave", "reshape",
    "roll", "select", "slice", "split", "split_with_sizes", "squeeze", "stack", "sum",
    "swapaxes", "t", "transpose", "unbind", "unflatten", "unsqueeze", "view_as", "vstack",
}  # fmt: skip
_PRODUCTS = {"mul", "multiply", "mm", "bmm", "matmul"}


def is_complex(arg: Any) -> bool:
    return any(True for _ in complex_in(arg)) or isinstance(arg, torch.dtype) and arg.is_complex


def complex_in(arg: Any) -> Iterator[Complex]:
    if isinstance(arg, Complex):
        yield arg
    elif isinstance(arg, (list, tuple)):
        for item in arg:
            yield from complex_in(item)


def makes_complex(op: torch._ops.OpOverload) -> bool:
    return op in (aten.view_as_complex.default, aten.polar.default, aten.complex.default)


def _part(arg: Any, name: str) -> Any:
    if isinstance(arg, Complex):
        return getattr(arg, name)
    if isinstance(arg, (list, tuple)):
        return [_part(item, name) for item in arg]
    return arg


class Pairs:
    """Emits the steps of a complex operator. `emit(op, args)`: those of a real one."""

    def __init__(self, emit: Callable[[torch._ops.OpOverload, dict[str, Any]], Any], where: str) -> None:
        self.emit, self.where = emit, where

    def of(self, op: torch._ops.OpOverload, args: dict[str, Any]) -> Any:
        name = op._schema.name.removeprefix("aten::")
        own = getattr(self, f"on_{name.lstrip('_')}", None)
        if own is not None:
            return own(*args.values())
        if name in ("alias", "detach", "lift_fresh", "lift_fresh_copy", "resolve_conj", "resolve_neg"):
            return args["self"]
        if name in ("view", "_unsafe_view", "_reshape_alias"):  # the parts may lie otherwise than the pairs
            return self._both(aten.reshape.default, {"self": args["self"], "shape": args["size"]})
        if name in _PRODUCTS and not op._schema.is_mutable:
            return self._product(op, *list(args.values())[:2])
        dtype = args.get("dtype")
        if name in ("to", "_to_copy") and isinstance(args["self"], Complex) and (dtype is None or dtype.is_complex):
            return args["self"]
        if name in _PARTWISE and dtype is None:
            return self._both(op, args)
        raise Refused(
            f"it computes {op._schema.name} of complex numbers{self.where}, which a task has no step for; compute with their "
            "real and imaginary parts (torch.view_as_real)"
        )

    def _both(self, op: torch._ops.OpOverload, args: dict[str, Any]) -> Any:
        re, im = (self.emit(op, {k: _part(v, part) for k, v in args.items()}) for part in ("re", "im"))
        return [Complex(a, b) for a, b in zip(re, im)] if isinstance(re, list) else Complex(re, im)

    def _call(self, op: torch._ops.OpOverload, *given: Any) -> Value:
        return self.emit(op, {a.name: v for a, v in zip(op._schema.arguments, given)})

    def on_view_as_complex(self, pairs: Value) -> Complex:
        return Complex(self._call(aten.select.int, pairs, -1, 0), self._call(aten.select.int, pairs, -1, 1))

    def on_view_as_real(self, z: Complex) -> Value:
        return self._call(aten.stack.default, [z.re, z.im], -1)

    def on_polar(self, size: Value, angle: Value) -> Complex:
        parts = (self._call(turn, angle) for turn in (aten.cos.default, aten.sin.default))
        return Complex(*(self._call(aten.mul.Tensor, size, part) for part in parts))

    def on_complex(self, re: Value, im: Value) -> Complex:
        return Complex(re, im)

    def on_real(self, z: Complex) -> Value:
        return z.re

    def on_imag(self, z: Complex) -> Value:
        return z.im

    def on_conj(self, z: Complex) -> Complex:
        return Complex(z.re, self._call(aten.neg.default, z.im))

    on_conj_physical = on_conj

    def on_abs(self, z: Complex) -> Value:
        squares = [self._call(aten.mul.Tensor, part, part) for part in (z.re, z.im)]
        return self._call(aten.sqrt.default, self._call(aten.add.Tensor, *squares))

    def on_angle(self, z: Complex) -> Value:
        return self._call(aten.atan2.default, z.im, z.re)

    def on_exp(self, z: Complex) -> Complex:
        return self.on_polar(self._call(aten.exp.default, z.re), z.im)

    def _split_parts(self, x: Any) -> tuple[Any, Any]:
        """A complex operand's parts; of a real one the second is 0."""
        if isinstance(x, Complex):
            return x.re, x.im
        return (x.real, x.imag) if isinstance(x, complex) else (x, 0)

    def _product(self, op: torch._ops.OpOverload, a: Any, b: Any) -> Complex:
        (ar, ai), (br, bi) = self._split_parts(a), self._split_parts(b)

        def times(x: Any, y: Any) -> Any:
            if isinstance(x, Value) and isinstance(y, Value):
                return self._call(op, x, y)
            if isinstance(x, Value):
                return self._call(aten.mul.Scalar, x, y)
            return self._call(aten.mul.Scalar, y, x)

        if not (isinstance(a, Complex) and isinstance(b, Complex)) and not isinstance(a, complex) and not isinstance(b, complex):
            return Complex(times(ar, br), times(ai, br) if isinstance(a, Complex) else times(ar, bi))
        re = self._call(aten.sub.Tensor, times(ar, br), times(ai, bi))
        return Complex(re, self._call(aten.add.Tensor, times(ar, bi), times(ai, br)))

    def on_div(self, a: Any, b: Any) -> Complex:
        if isinstance(b, (Complex, complex)):
            raise Refused(f"it divides by complex numbers{self.where}; multiply by conj() / abs() ** 2")
        divide = aten.div.Tensor if isinstance(b, Value) else aten.div.Scalar
        return Complex(self._call(divide, a.re, b), self._call(divide, a.im, b))

    def _sum_of(self, op: torch._ops.OpOverload, a: Any, b: Any, alpha: Any) -> Complex:
        (ar, ai), (br, bi) = self._split_parts(a), self._split_parts(b)
        if not (isinstance(a, Complex) and isinstance(b, Complex)):
            raise Refused(
                f"it adds real to complex numbers{self.where}; add to the real part (torch.complex(z.real + x, z.imag))"
            )
        return Complex(self._call(op, ar, br, alpha), self._call(op, ai, bi, alpha))

    def on_add(self, a: Any, b: Any, alpha: Any = 1) -> Complex:
        return self._sum_of(aten.add.Tensor, a, b, alpha)

    def on_sub(self, a: Any, b: Any, alpha: Any = 1) -> Complex:
        return self._sum_of(aten.sub.Tensor, a, b, alpha)
