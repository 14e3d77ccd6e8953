"""Complex intermediates, as those of rotary embeddings: a task has real tensors, so each is a pair of them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable, Iterator

import torch

from .fourier import Fourier
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
    "roll", "select", "select_scatter", "slice", "slice_scatter", "split", "split_with_sizes", "squeeze", "stack", "sum",
    "swapaxes", "t", "transpose", "unbind", "unflatten", "unsqueeze", "view_as", "vstack",
}  # fmt: skip
# What makes tensors of one number.
_FACTORIES = {"zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "empty"}
_TRANSFORMS = (aten._fft_r2c.default, aten._fft_c2c.default, aten._fft_c2r.default)
_PRODUCTS = {"mul", "multiply", "mm", "bmm", "matmul"}


_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def is_complex(arg: Any) -> bool:
    return any(True for _ in complex_in(arg)) or isinstance(arg, complex) or isinstance(arg, torch.dtype) and arg.is_complex


def complex_in(arg: Any) -> Iterator[Complex]:
    if isinstance(arg, Complex):
        yield arg
    elif isinstance(arg, (list, tuple)):
        for item in arg:
            yield from complex_in(item)


def makes_complex(op: torch._ops.OpOverload) -> bool:
    return op in (aten.view_as_complex.default, aten.polar.default, aten.complex.default, *_TRANSFORMS)


def is_made_of_transforms(op: torch._ops.OpOverload) -> bool:
    """An operator of torch.fft, or of that kind, that ATen takes apart."""
    return op._schema.name.startswith("aten::fft_") or op in (aten.stft.default, aten.stft.center, aten.istft.default)


def _part(arg: Any, name: str) -> Any:
    if isinstance(arg, Complex):
        return getattr(arg, name)
    if isinstance(arg, (list, tuple)):
        return [_part(item, name) for item in arg]
    return arg


class Pairs:
    """Emits the steps of a complex operator. `emit(op, args)`: those of a real one. `constant(name, data)`: a table.
    `lengths`: of the Fourier transforms, which are added."""

    def __init__(
        self,
        emit: Callable[[torch._ops.OpOverload, dict[str, Any]], Any],
        where: str,
        constant: Callable[[str, torch.Tensor], Value],
        lengths: set[int],
    ) -> None:
        self.emit, self.where = emit, where
        self.fourier = Fourier(self._call, constant, where, lengths)

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
        if name in ("to", "_to_copy") and isinstance(args["self"], Complex) and dtype in (None, args["self"].fake().dtype):
            return args["self"]
        if name in ("to", "_to_copy") and dtype in _REAL:
            return self._converted(args["self"], _REAL[dtype])
        if name in _FACTORIES and dtype in (None, *_REAL):
            return self._filled(op, args)
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

    def _zeros_of(self, x: Value) -> Value:
        return self.emit(aten.full.default, {"size": list(x.fake.shape), "fill_value": 0.0, "dtype": x.fake.dtype})

    def _converted(self, x: Complex | Value, dtype: torch.dtype) -> Complex:
        if isinstance(x, Complex):
            return Complex(*(self._call(aten.to.dtype, part, dtype) for part in (x.re, x.im)))
        re = x if x.fake.dtype == dtype else self._call(aten.to.dtype, x, dtype)
        return Complex(re, self._zeros_of(re))

    def _filled(self, op: torch._ops.OpOverload, args: dict[str, Any]) -> Complex:
        like = args.get("self")
        dtype = args.get("dtype") or (like.fake().dtype if isinstance(like, Complex) else torch.complex64)
        size = args["size"] if "size" in args else list(like.re.fake.shape if isinstance(like, Complex) else like.fake.shape)
        number = complex(args.get("fill_value", 1.0 if "ones" in op._schema.name else 0.0))
        given = ({"size": size, "fill_value": part, "dtype": _REAL[dtype]} for part in (number.real, number.imag))
        return Complex(*(self.emit(aten.full.default, one) for one in given))

    def _over(self, z: Any, dim: int, transform: Callable[[tuple[Value, Value | None]], tuple[Value, Value]]) -> Complex:
        """A transform of the last dimension, over another."""
        pair = (z.re, z.im) if isinstance(z, Complex) else (z, None)
        dims = pair[0].fake.dim()
        dim %= dims
        if dim == dims - 1:
            return Complex(*transform(pair))
        re, im = transform(tuple(None if x is None else self._call(aten.transpose.int, x, dim, -1) for x in pair))
        return Complex(*(self._call(aten.transpose.int, x, dim, -1) for x in (re, im)))

    def _scale(self, sizes: list[int], normalization: int) -> float:
        count = math.prod(sizes)
        return (1.0, 1 / math.sqrt(count), 1 / count)[normalization]

    def on_fft_c2c(self, z: Any, dims: list[int], normalization: int, forward: bool) -> Any:
        shape = z.re.fake.shape if isinstance(z, Complex) else z.fake.shape
        scale = self._scale([shape[d] for d in dims], normalization)
        for d in dims:
            now, scale = scale, 1.0
            self.fourier.lengths.add(shape[d])
            z = self._over(z, d, lambda pair: self.fourier.complex_to_complex(pair, -1 if forward else 1, now))
        return z

    def on_fft_r2c(self, x: Value, dims: list[int], normalization: int, onesided: bool) -> Complex:
        if not onesided:
            return self.on_fft_c2c(x, dims, normalization, True)
        scale = self._scale([x.fake.shape[d] for d in dims], normalization)
        self.fourier.lengths.add(x.fake.shape[dims[-1]])
        z = self._over(x, dims[-1], lambda pair: self.fourier.real_to_half(pair[0], scale))
        return self.on_fft_c2c(z, dims[:-1], 0, True)

    def on_fft_c2r(self, z: Complex, dims: list[int], normalization: int, last_dim_size: int) -> Value:
        shape = z.re.fake.shape
        scale = self._scale([*(shape[d] for d in dims[:-1]), last_dim_size], normalization)
        z = self.on_fft_c2c(z, dims[:-1], 0, False)
        half = last_dim_size // 2 + 1
        self.fourier.lengths.add(last_dim_size)

        def real(pair: tuple[Value, Value | None]) -> tuple[Value, Value]:
            re, im = (x if x.fake.shape[-1] == half else self._call(aten.slice.Tensor, x, -1, 0, half) for x in pair)
            x = self.fourier.half_to_real(re, im, last_dim_size, scale)
            return x, x

        return self._over(z, dims[-1], real).re

    def on_constant_pad_nd(self, z: Complex, pad: list[int], value: Any = 0) -> Complex:
        number = complex(value)
        parts = zip((z.re, z.im), (number.real, number.imag))
        return Complex(*(self._call(aten.constant_pad_nd.default, part, pad, by) for part, by in parts))

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
            """None: 0."""
            numbers = [n for n in (x, y) if not isinstance(n, Value)]
            if 0 in numbers or len(numbers) == 2:
                return None if 0 in numbers else x * y
            if not numbers:
                return self._call(op, x, y)
            return self._call(aten.mul.Scalar, *((x, y) if isinstance(x, Value) else (y, x)))

        re = self._sum(times(ar, br), times(ai, bi), aten.sub.Tensor)
        im = self._sum(times(ar, bi), times(ai, br), aten.add.Tensor)
        return Complex(re if re is not None else self._zeros_of(im), im if im is not None else self._zeros_of(re))

    def _sum(self, x: Any, y: Any, op: torch._ops.OpOverload) -> Any:
        """None: 0."""
        if x is None or y is None:
            return x if y is None else y if op is aten.add.Tensor else self._call(aten.neg.default, y)
        return self._call(op, x, y)

    def on_div(self, a: Any, b: Any) -> Complex:
        if isinstance(b, complex):
            return self._product(aten.mul.Tensor, a, 1 / b)
        if isinstance(b, Complex):
            squares = [self._call(aten.mul.Tensor, part, part) for part in (b.re, b.im)]
            size = self._call(aten.add.Tensor, *squares)
            if not isinstance(a, (Value, Complex)):
                a = complex(a)
            return self.on_div(self._product(aten.mul.Tensor, a, self.on_conj(b)), size)
        if not isinstance(a, Complex):
            raise Refused(f"it makes complex numbers of real ones by a division{self.where}; use torch.complex")
        divide = aten.div.Tensor if isinstance(b, Value) else aten.div.Scalar
        return Complex(self._call(divide, a.re, b), self._call(divide, a.im, b))

    def on_reciprocal(self, z: Complex) -> Complex:
        return self.on_div(1.0, z)

    def _sum_of(self, op: torch._ops.OpOverload, a: Any, b: Any, alpha: Any) -> Complex:
        (ar, ai), (br, bi) = self._split_parts(a), self._split_parts(b)
        shape = torch.broadcast_shapes(*(tuple(x.fake.shape) if isinstance(x, Value) else () for x in (ar, br)))

        def part(x: Any, y: Any) -> Value:
            if isinstance(x, Value) and isinstance(y, Value):
                return self._call(op, x, y, alpha)
            if isinstance(x, Value) and y != 0:
                return self._call(aten.add.Scalar if op is aten.add.Tensor else aten.sub.Scalar, x, y, alpha)
            if isinstance(x, Value):
                return self._expanded(x, shape)
            times = alpha if op is aten.add.Tensor else -alpha
            y = self._expanded(y if times == 1 else self._call(aten.mul.Scalar, y, times), shape)
            return self._call(aten.add.Scalar, y, x) if x != 0 else y

        re = part(ar, br)
        if isinstance(ai, Value) or isinstance(bi, Value):
            return Complex(re, part(ai, bi))
        # A tensor of real numbers and a complex number.
        number = ai + alpha * bi if op is aten.add.Tensor else ai - alpha * bi
        return Complex(re, self.emit(aten.full.default, {"size": list(shape), "fill_value": number, "dtype": re.fake.dtype}))

    def _expanded(self, x: Value, shape: Any) -> Value:
        return x if x.fake.shape == shape else self.emit(aten.expand.default, {"self": x, "size": list(shape)})

    def on_add(self, a: Any, b: Any, alpha: Any = 1) -> Complex:
        return self._sum_of(aten.add.Tensor, a, b, alpha)

    def on_sub(self, a: Any, b: Any, alpha: Any = 1) -> Complex:
        return self._sum_of(aten.sub.Tensor, a, b, alpha)
