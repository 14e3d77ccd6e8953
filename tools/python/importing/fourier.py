"""Discrete Fourier transforms as products with tables of sines and cosines: a task has no complex numbers, and no
operator of a transform. A long one is made of two short ones (Cooley and Tukey, 1965: "An algorithm for the machine
calculation of complex Fourier series")."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable

import torch

from .program import Value
from .refusal import Refused

aten = torch.ops.aten

_LONGEST_PRODUCT = 512  # a longer transform is made of two
_LONGEST_PRIME = 2048  # that is computed as one product


def _angles(rows: int, columns: int, n: int) -> torch.Tensor:
    """2 pi j k / n, of whole numbers reduced by n first."""
    places = torch.outer(torch.arange(rows), torch.arange(columns)) % n
    return places.double() * (2 * math.pi / n)


def _factors(n: int) -> tuple[int, int] | None:
    """The two whose sum is least; None for what is computed as one product."""
    if n <= _LONGEST_PRODUCT:
        return None
    a = next(a for a in range(math.isqrt(n), 0, -1) if n % a == 0)
    return (a, n // a) if a > 1 else None


@dataclasses.dataclass
class Fourier:
    """`call(op, *args)` adds a step, `constant(name, data)` gives a table. A pair is the real and the imaginary part;
    the second is None for real numbers. All transforms are over the last dimension."""

    call: Callable[..., Any]
    constant: Callable[[str, torch.Tensor], Value]
    where: str
    lengths: set[int]  # of the transforms, which Pairs adds

    def complex_to_complex(self, pair: tuple[Value, Value | None], sign: int, scale: float) -> tuple[Value, Value]:
        """`sign`: -1 forward, 1 backward."""
        n = pair[0].fake.shape[-1]
        split = _factors(n)
        if split is None:
            return self._product(pair, n, sign, scale)
        a, b = split
        shape = list(pair[0].fake.shape[:-1])

        def row(x: Value | None) -> Value | None:
            return x and self.call(aten.transpose.int, self.call(aten.reshape.default, x, [*shape, a, b]), -1, -2)

        rows = (row(pair[0]), row(pair[1]))
        re, im = self.complex_to_complex(rows, sign, scale)  # over the first factor: [..., b, a]
        angles = _angles(b, a, n)
        cos, sin = (self._table(f"turn{b}x{a}", x, re, name) for name, x in (("cos", angles.cos()), ("sin", angles.sin())))
        re, im = self._times(re, im, cos, sin, sign)
        re, im = (self.call(aten.transpose.int, x, -1, -2) for x in (re, im))
        re, im = self.complex_to_complex((re, im), sign, 1.0)  # over the second: [..., a, b]
        re, im = (self.call(aten.reshape.default, self.call(aten.transpose.int, x, -1, -2), [*shape, n]) for x in (re, im))
        return re, im

    def real_to_half(self, x: Value, scale: float) -> tuple[Value, Value]:
        """The first n / 2 + 1 of the forward transform."""
        n = x.fake.shape[-1]
        half = n // 2 + 1
        if _factors(n) is None:
            return self._product((x, None), half, -1, scale)
        re, im = (self.call(aten.slice.Tensor, part, -1, 0, half) for part in self.complex_to_complex((x, None), -1, scale))
        return re, im

    def half_to_real(self, re: Value, im: Value, n: int, scale: float) -> Value:
        """The backward transform of n elements of which the first n / 2 + 1 are given."""
        half = n // 2 + 1
        if _factors(n) is None:
            weight = torch.full((half, 1), 2.0, dtype=torch.float64)
            weight[0] = 1
            if n % 2 == 0:
                weight[-1] = 1
            angles = _angles(half, n, n)
            table = torch.cat([weight * angles.cos(), -weight * angles.sin()]) * scale
            both = self.call(aten.cat.default, [re, im], -1)
            return self.call(aten.matmul.default, both, self._table(f"irfft{n}", table, re, f"{scale:g}"))
        rest = [self.call(aten.flip.default, self.call(aten.slice.Tensor, x, -1, 1, n - half + 1), [-1]) for x in (re, im)]
        whole = (
            self.call(aten.cat.default, [re, rest[0]], -1),
            self.call(aten.cat.default, [im, self.call(aten.neg.default, rest[1])], -1),
        )
        return self.complex_to_complex(whole, 1, scale)[0]

    def _product(self, pair: tuple[Value, Value | None], count: int, sign: int, scale: float) -> tuple[Value, Value]:
        """The first `count` of the transform, by one product."""
        re, im = pair
        n = re.fake.shape[-1]
        if n > _LONGEST_PRIME:
            raise Refused(
                f"it computes a Fourier transform of {n} elements{self.where}, a prime number, which a task would do as one "
                "product: pad to a length with small factors"
            )
        angles = _angles(n, count, n)
        cos, sin = angles.cos() * scale, angles.sin() * (sign * scale)
        table = torch.cat([cos, sin], 1)
        if im is not None:
            table = torch.cat([table, torch.cat([-sin, cos], 1)])
            re = self.call(aten.cat.default, [re, im], -1)
        kind = f"fft{n}_{count}_{'real' if im is None else 'complex'}_{'forward' if sign < 0 else 'backward'}"
        both = self.call(aten.matmul.default, re, self._table(kind, table, re, f"{scale:g}"))
        first, second = (self.call(aten.slice.Tensor, both, -1, start, start + count) for start in (0, count))
        return first, second

    def _times(self, re: Value, im: Value, cos: Value, sin: Value, sign: int) -> tuple[Value, Value]:
        def product(x: Value, y: Value) -> Value:
            return self.call(aten.mul.Tensor, x, y)

        first, second = (aten.sub.Tensor, aten.add.Tensor) if sign > 0 else (aten.add.Tensor, aten.sub.Tensor)
        return (
            self.call(first, product(re, cos), product(im, sin)),
            self.call(second, product(im, cos), product(re, sin)),
        )

    def _table(self, kind: str, data: torch.Tensor, like: Value, name: str) -> Value:
        dtype = like.fake.dtype
        if dtype not in (torch.float32, torch.float64):
            raise Refused(
                f"it computes a Fourier transform of {str(dtype).removeprefix('torch.')}{self.where}: convert to float32 first"
            )
        return self.constant(f"{kind}_{name}_{str(dtype).removeprefix('torch.')}", data.to(dtype))
