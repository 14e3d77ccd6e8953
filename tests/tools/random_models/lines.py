"""Lines of a forward, one after the other, with the values that they give."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F

LARGEST = 4096  # elements of a value
FLOATS = ("float32", "float16", "bfloat16", "float64")
INTEGERS = ("int32", "int64", "int16", "int8", "uint8")
SHAPES = ((4, 6), (2, 3, 4), (6,), (3, 8), (2, 2, 3, 4), (8, 8), (1, 5))


class Unfit(Exception):
    """PyTorch refuses the line, or its result is none that a model would have."""


class Lines:
    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.text: list[str] = []
        self.attributes: list[str] = []  # statements of __init__
        self.inputs: dict[str, str] = {}
        self.values: dict[str, torch.Tensor] = {}
        self.fresh: list[str] = []  # those that may be written into
        self.varies: set[str] = set()  # what depends on an input
        self.read: set[str] = set()
        self.model = torch.nn.Module()
        shape = list(r.choice(SHAPES))
        self._input("x", f"torch.randn{tuple(shape)}")
        if r.random() < 0.5:
            more = [f"torch.randn{tuple(shape)}", f"torch.rand{tuple(shape)} < 0.5", f"torch.randint(0, 9, {tuple(shape)})"]
            self._input("y", r.choice(more))

    def _input(self, name: str, text: str) -> None:
        self.inputs[name] = text
        self.values[name] = eval(text, {"torch": torch})
        self.varies.add(name)

    # ---- lines ----

    def add(self) -> None:
        kinds = (self.cast, self.round_trip, self.view, self.copy, self.constant, self.in_place, self.arithmetic, self.join)
        self.r.choices(kinds, (3, 3, 4, 2, 2, 4, 5, 1))[0]()

    def cast(self) -> None:
        a = self.one()
        self.assign(self.converted(a, self.r.choice((*FLOATS, *INTEGERS, "bool"))), a)

    def round_trip(self) -> None:
        """There and back, perhaps with a view between."""
        a = self.one()
        there = self.converted(a, self.r.choice((*FLOATS, *INTEGERS, "bool")))
        between = self.r.choice(("", "", ".reshape(-1)", ".unsqueeze(0)", ".clone()", ".contiguous()"))
        self.assign(f"{there}{between}.to(torch.{str(self.values[a].dtype)[6:]})", a)

    def converted(self, a: str, to: str) -> str:
        kind = self.values[a].dtype
        if to in INTEGERS and kind.is_floating_point:  # what is out of range is undefined
            a = f"({a} * {self.r.choice((1, 4, 10.0))}).clamp({'0' if to == 'uint8' else '-100'}, 100)"
        short = {"float32": "float", "float16": "half", "bfloat16": "bfloat16", "float64": "double", "int32": "int"}
        if to in short and self.r.random() < 0.4:
            return f"{a}.{short[to]}()"
        return f"{a}.to(torch.{to}{self.r.choice(('', '', ', copy=True'))})"

    def view(self) -> None:
        a = self.one()
        t = self.values[a]
        dim, last = self.r.randrange(max(t.dim(), 1)), max(t.dim() - 1, 0)
        size = t.shape[dim] if t.dim() else 1
        begin = self.r.randrange(max(size, 1))
        rest = list(t.shape[1:])
        self.assign(
            self.r.choice(
                (
                    f"{a}.reshape(-1)",
                    f"{a}.view(-1)",
                    f"{a}.reshape({list(t.shape) + [1]})",
                    f"{a}.view({[1] + list(t.shape)})",
                    f"{a}.transpose({dim}, {last})",
                    f"{a}.permute({self.r.sample(range(t.dim()), t.dim())})",
                    f"{a}.unsqueeze({dim})",
                    f"{a}.squeeze()",
                    f"{a}.flatten({dim})",
                    f"{a}.narrow({dim}, {begin}, {size - begin})",
                    f"{a}.select({dim}, {begin})",
                    f"{a}[..., {begin}:]",
                    f"{a}[{begin}:]",
                    f"{a}.unsqueeze(0).expand({[2] + list(t.shape)})",
                    f"{a}.chunk(2, {dim})[{self.r.randrange(2)}]",
                    f"{a}.movedim(0, {last})",
                    f"{a}.reshape({rest + list(t.shape[:1])})",
                    f"{a}.detach()",
                    f"{a}.contiguous()",
                )
            ),
            a,
            fresh=a in self.fresh,
        )

    def copy(self) -> None:
        a = self.one()
        b = self.like(a)
        self.assign(
            self.r.choice(
                (
                    f"{a}.clone()",
                    f"{a}.clone(memory_format=torch.contiguous_format)",
                    f"{a}.contiguous()",
                    f"torch.zeros_like({a}).copy_({b})",
                    f"torch.empty_like({a}).copy_({b})",
                    f"{a}.repeat({[2] * max(self.values[a].dim(), 1)})",
                    f"{a}.type_as({b})",
                    f"{a}.new_zeros({list(self.values[a].shape)}).copy_({b})",
                )
            ),
            a,
            b,
            fresh=True,
        )

    def constant(self) -> None:
        a = self.one()
        t = self.values[a]
        kind = str(t.dtype)[6:]
        row = [round(self.r.uniform(-2, 2), 3) for _ in range(t.shape[-1] if t.dim() else 1)]
        name = f"self.c{len(self.attributes)}"
        text, attribute = self.r.choice(
            (
                (f"torch.tensor({row})", ""),
                (f"torch.tensor({row[0]}, dtype=torch.float64)", ""),
                (f"torch.ones({list(t.shape)}, dtype=torch.{self.r.choice(FLOATS)})", ""),
                (f"torch.full_like({a}, {abs(int(row[0]))})", ""),
                (f"torch.arange({len(row)}, dtype=torch.{self.r.choice((*INTEGERS, 'float32'))})", ""),
                (f"torch.tensor({row}).to(torch.{self.r.choice(('float16', 'bfloat16'))}).float()", ""),
                (f"torch.tensor({row}).to(torch.{kind})[None]", ""),
                (name, f"self.register_buffer('{name[5:]}', torch.randn({len(row)}).half())"),
                (name, f"self.register_buffer('{name[5:]}', torch.randint(-9, 9, ({len(row)},), dtype=torch.int8))"),
                (name, f"self.{name[5:]} = torch.nn.Parameter(torch.randn({len(row)}))"),
            )
        )
        if attribute:
            exec(attribute, {"self": self.model, "torch": torch})
            self.attributes.append(attribute)
        self.assign(f"{a} {self.r.choice('+*')} {text}", a)

    def in_place(self) -> None:
        """Into a tensor that a line has made, or into a view of it."""
        if not self.fresh:
            raise Unfit
        a = self.r.choice(self.fresh)
        t, b = self.values[a], self.like(a)
        number = self.r.choice((1, 2, 0.5)) if t.is_floating_point() else self.r.choice((1, 2))
        size = t.shape[0] if t.dim() else 1
        at = self.r.randrange(max(size, 1))
        self.change(
            self.r.choice(
                (
                    f"{a}.add_({number})",
                    f"{a}.mul_({number})",
                    f"{a} += {b}",
                    f"{a} *= {number}",
                    f"{a}.copy_({b})",
                    f"{a}.clamp_(0, 3)",
                    f"{a}.zero_()",
                    f"{a}.fill_({number})",
                    f"{a}.relu_()",
                    f"{a}.neg_()",
                    f"{a}[{at}] = {number}",
                    f"{a}[{at}:] = {b}[{at}:]",
                    f"{a}[..., {at}] = {b}[..., {at}]",
                    f"{a}[..., :1] *= {number}",
                    f"{a}.view(-1)[{at}:].mul_({number})",
                    f"{a}[{b} > 0] = {number}",
                    f"{a}.masked_fill_({b} > 0, {number})",
                )
            ),
            a,
            b,
        )

    def arithmetic(self) -> None:
        a = self.one()
        b = self.like(a)
        self.assign(
            self.r.choice(
                (
                    f"{a} + {b}",
                    f"{a} - {b}",
                    f"{a} * 0.5",
                    f"1 - {a}",
                    f"{a} / 4",
                    f"torch.relu({a})",
                    f"torch.tanh({a})",
                    f"torch.sigmoid({a})",
                    f"torch.maximum({a}, {b})",
                    f"torch.where({a} > {b}, {a}, {b})",
                    f"{a} > {b}",
                    f"{a}.sum(-1, keepdim=True)",
                    f"{a}.float().mean(-1)",
                    f"{a}.float().softmax(-1)",
                    f"{a}.abs()",
                    f"-{a}",
                    f"F.dropout({a}, 0.3, training=False)",
                )
            ),
            a,
            b,
            fresh=True,
        )

    def join(self) -> None:
        a = self.one()
        b = self.like(a)
        self.assign(self.r.choice((f"torch.cat([{a}, {b}])", f"torch.stack([{a}, {b}], -1)", f"torch.cat([{b}, {a}], -1)")), a, b, fresh=True)

    # ---- the values ----

    def one(self) -> str:
        """Rather one that nothing has read."""
        names = list(self.values)
        unread = [n for n in names if n not in self.read]
        return self.r.choice(unread if unread and self.r.random() < 0.6 else names)

    def like(self, a: str) -> str:
        """Of the same shape."""
        return self.r.choice([n for n, t in self.values.items() if t.shape == self.values[a].shape])

    def assign(self, text: str, *read: str, fresh: bool = False) -> None:
        name = f"v{len(self.values)}"
        self._run(f"{name} = {text}", name)
        self.read |= set(read)
        if self.varies & set(read):
            self.varies.add(name)
        if fresh:
            self.fresh.append(name)

    def change(self, text: str, changed: str, *read: str) -> None:
        self._run(text, changed)
        self.read |= set(read) - {changed}
        self.read.discard(changed)
        # What shares its memory holds what it is given, too.
        if self.varies & set(read):
            self.varies.add(changed)

    def _run(self, line: str, name: str) -> None:
        """From the inputs on, so that a line that is left out has changed nothing."""
        again = {"torch": torch, "F": F, "self": self.model}
        text = "\n".join([*self.text, line])
        again.update({n: t.clone() for n, t in self.values.items() if n in self.inputs})
        try:
            exec(text, again)
        except (RuntimeError, IndexError, ValueError, TypeError) as e:
            raise Unfit from e
        for n in {*self.values, name}:
            t = again[n]
            if not isinstance(t, torch.Tensor) or not 0 < t.numel() <= LARGEST or not t.isfinite().all():
                raise Unfit
        self.values = {n: again[n] for n in dict.fromkeys([*self.values, name])}
        self.text.append(line)

    def results(self) -> list[str]:
        """What nothing reads, and once more what something does."""
        made = [n for n in self.values if n not in self.inputs and n in self.varies]
        if not made:
            self.assign("x * 2", "x", fresh=True)
            made = list(self.values)[-1:]
        unread = [n for n in made if n not in self.read][-3:] or made[-1:]
        if self.r.random() < 0.3:
            unread.append(self.r.choice(made))
        return list(dict.fromkeys(unread))
