"""Rows that a mask or its places choose, as those of one expert: how many there are depends on values. While a model is
recorded all rows are computed, and the mask chooses where they are written: `y[m] = f(x[m])` as `where(m, f(x), y)`.
That is the same if each row is computed by itself, which is what the operators here do."""

from __future__ import annotations

import math
from typing import Any

import torch

from . import lines
from .refusal import Refused

# Element by element.
_ELEMENTWISE = {
    "abs", "add", "bfloat16", "bool", "ceil", "celu", "clamp", "clamp_max", "clamp_min", "clip", "clone",
    "contiguous", "cos", "detach", "div", "double", "dropout", "elu", "eq", "erf", "exp", "expm1", "float",
    "floor", "floor_divide", "ge", "gelu", "gt", "half", "hardsigmoid", "hardswish", "hardtanh", "int", "le",
    "leaky_relu", "log", "log1p", "log2", "logical_and", "logical_not", "logical_or", "logsigmoid", "long",
    "lt", "masked_fill", "maximum", "minimum", "mish", "mul", "multiply", "ne", "neg", "pow", "reciprocal",
    "relu", "relu6", "remainder", "round", "rsqrt", "rsub", "selu", "sigmoid", "sign", "silu", "sin",
    "softplus", "sqrt", "square", "sub", "subtract", "tan", "tanh", "to", "true_divide", "trunc", "type",
    "where",
}  # fmt: skip
# Of the last dimension, where the rows are not it.
_LAST_DIMENSION = {
    "amax", "amin", "argmax", "argmin", "chunk", "cumprod", "cumsum", "glu", "log_softmax", "logsumexp", "max", "mean",
    "min", "prod", "softmax", "split", "std", "sum", "topk", "var",
}  # fmt: skip
_MASKS = {"eq", "ge", "gt", "invert", "le", "logical_and", "logical_not", "logical_or", "lt", "ne"}
_COUNT_THEN_DIMENSION = {"chunk", "split", "topk"}
_LAYERS = {"linear", "matmul", "layer_norm", "rms_norm"}


def _is_mask(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype == torch.bool and x.dim() > 0


def _plain_name(func: Any) -> str:
    """`add` of `__add__` and `__radd__`, which differ in the order of operands alone."""
    name = getattr(func, "__name__", "")
    word = name.strip("_") if name.startswith("__") else name
    dunder = {"truediv": "true_divide", "floordiv": "floor_divide", "mod": "remainder", "and": "logical_and", "or": "logical_or"}
    known = dunder.get(word, word)
    reflected = {"radd": "add", "rmul": "mul", "rsub": "sub", "rtruediv": "true_divide", "rpow": "pow"}
    return reflected.get(known, known)


class _Count(int):
    """How many rows there are. It may be compared, with 0 for instance, or be a size; what is computed with it would be
    another number in the next call."""

    def _refuse(self, *_: Any) -> Any:
        raise Refused(
            f"its shapes depend on values{lines.of_caller()}: it computes with the number of rows that a mask chooses; take the "
            "sum of the mask, which is a tensor"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = _refuse
    __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __float__ = _refuse


class MaskedRows(torch.overrides.TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self._masks: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # of rows, by id; both kept alive
        self._lines: dict[int, str] = {}  # where a mask, by id, chooses rows last
        self._made: dict[tuple, tuple[torch.Tensor, int, tuple]] = {}  # by what they are made of, which is kept alive

    @property
    def chose(self) -> bool:
        """Whether a mask chose rows, all of which are computed."""
        return bool(self._lines)

    def _mask_of(self, value: Any) -> torch.Tensor | None:
        found = self._masks.get(id(value))
        return found[1] if found else None

    def _mark(self, value: Any, mask: torch.Tensor) -> Any:
        for t in [value] if isinstance(value, torch.Tensor) else value if isinstance(value, (list, tuple)) else ():
            if isinstance(t, torch.Tensor):
                self._masks[id(t)] = (t, mask)
        return value

    def check_result(self, result: Any) -> None:
        masks = [m for leaf in torch.utils._pytree.tree_leaves(result) if (m := self._mask_of(leaf)) is not None]
        if masks:
            self._refuse("forward returns them", self._lines.get(id(masks[0]), ""))

    def _refuse(self, why: str, where: str = "") -> None:
        raise Refused(
            f"its shapes depend on values{where or lines.of_caller()}: a mask chooses rows, so that their number differs from "
            f"call to call, and {why}; a task's steps are the same for all values, so compute with masks (torch.where) instead"
        )

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name == "__getitem__":
            return self._read(func, *args)
        if name == "__setitem__":
            return self._write(func, *args)
        if name in ("nonzero", "argwhere") or name == "where" and len(args) == 1 and not kwargs:
            if _is_mask(args[0]) and self._mask_of(args[0]) is None:
                return self._places(args[0], name == "where" or bool(kwargs.get("as_tuple")))
        if name == "masked_select" and len(args) == 2 and _is_mask(args[1]) and args[0].shape == args[1].shape:
            return self._read(func, args[0], args[1])
        counts = [a for a in args if isinstance(a, _Count)]
        if counts and (_plain_name(func) in _ELEMENTWISE or name in ("arange", "full", "tensor")):
            counts[0]._refuse()
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        masks = {id(m): m for leaf in leaves if (m := self._mask_of(leaf)) is not None}
        if not masks and _plain_name(func) in _MASKS and not kwargs:
            return self._same_mask(func, args)
        if not masks:
            return func(*args, **kwargs)
        if name in ("__get__", "size", "numel", "__len__"):
            return self._counted(func(*args, **kwargs), args[0].shape[0])
        mask = next(iter(masks.values()))
        added = name in ("index_add_", "index_add") and len(args) == 4
        if added and self._mask_of(args[0]) is None and self._mask_of(args[3]) is mask and not kwargs:
            chosen = mask.reshape([-1] + [1] * (args[3].dim() - 1))
            return func(args[0], args[1], args[2], torch.where(chosen, args[3], torch.zeros_like(args[3])))
        if name in ("dim", "is_floating_point", "is_complex", "stride"):
            return func(*args, **kwargs)
        if len(masks) > 1:
            self._refuse("those of several masks are combined")
        word = _plain_name(func)
        if name.endswith("_") and not name.endswith("__"):
            word = word.removesuffix("_")
            if self._mask_of(args[0]) is None:
                self._refuse("others are changed by them in place")
        if not self._is_by_row(word, args, kwargs):
            self._refuse(f"{word} does not compute each by itself")
        return self._mark(func(*args, **kwargs), mask)

    def _same_mask(self, func: Any, args: tuple) -> torch.Tensor:
        """A mask that is made twice of the same tensors is one: `y[x > 0] = f(x[x > 0])`."""
        key = (_plain_name(func), *((id(a), a._version) if isinstance(a, torch.Tensor) else (type(a), a) for a in args))
        known = self._made.get(key)
        if known is not None and known[0]._version == known[1]:
            return known[0]
        mask = func(*args)
        if not isinstance(mask, torch.Tensor):  # `x == None`
            return mask
        self._made[key] = (mask, mask._version, args)
        return mask

    @staticmethod
    def _counted(told: Any, rows: int) -> Any:
        if isinstance(told, torch.Size) and told:
            return torch.Size((_Count(told[0]), *told[1:]))
        return _Count(told) if type(told) is int and told and told % rows == 0 else told

    def _is_by_row(self, word: str, args: tuple, kwargs: dict) -> bool:
        tensors = [t for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        rows = [t for t in tensors if self._mask_of(t) is not None]
        first = bool(args) and self._mask_of(args[0]) is not None and len(rows) == 1
        if word in _ELEMENTWISE:
            most = max(t.dim() for t in rows)
            return all(t.dim() == most for t in rows) and all(
                t.dim() < most or t.dim() == most and t.shape[0] == 1 for t in tensors if self._mask_of(t) is None
            )
        if word == "type_as":
            return self._mask_of(args[0]) is not None
        if not first:
            return False
        x, given = args[0], args[1:]
        dim = kwargs.get("dim", next(iter(given[1:] if word in _COUNT_THEN_DIMENSION else given), None))
        if word in _LAYERS:
            over = len(given[0]) if word.endswith("_norm") else 1
            return x.dim() > over and all(t.dim() <= 2 for t in tensors[1:])
        if word in _LAST_DIMENSION:
            return type(dim) is int and x.dim() >= 2 and dim in (-1, x.dim() - 1)
        if word == "unsqueeze":
            return type(dim) is int and dim not in (0, -x.dim() - 1)
        if word in ("squeeze", "unflatten"):
            return type(dim) is int and dim not in (0, -x.dim())
        if word == "pad":
            return len(given[0]) < 2 * x.dim()
        if word in ("view", "reshape"):
            sizes = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
            return all(type(n) is int for n in sizes) and sizes[0] in (-1, x.shape[0]) and math.prod(sizes[1:]) == x[:1].numel()
        return word == "flatten" and x.dim() > 1 and x[:1].numel() == 1

    def _read(self, func: Any, x: torch.Tensor, index: Any) -> Any:
        items = index if isinstance(index, tuple) else (index,)
        mask = self._mask_of(x)
        if mask is not None:
            tensors = [i for i in items if isinstance(i, torch.Tensor)]
            named = sum(i is not None and i is not Ellipsis for i in items)
            if tensors or not (items[0] is Ellipsis and named < x.dim() or items[0] == slice(None)):
                self._refuse("some of them are taken")
            return self._mark(func(x, index), mask)
        if _is_mask(items[0]) and self._chooses_rows(x, items):
            self._lines[id(items[0])] = lines.of_caller()
            rows = x.reshape(-1, *x.shape[items[0].dim() :])[(slice(None), *items[1:])]
            return self._mark(rows.clone(), items[0])  # what changes them in place does not change x
        masks = [m for i in items if (m := self._mask_of(i)) is not None]
        if not masks:
            return func(x, index)
        if any(m is not masks[0] for m in masks) or self._mask_of(items[0]) is None:
            self._refuse("places of several masks are combined")
        return self._mark(func(x, index), masks[0])

    def _chooses_rows(self, x: torch.Tensor, items: tuple) -> bool:
        others = not any(isinstance(i, torch.Tensor) for i in items[1:])
        return others and x.shape[: items[0].dim()] == items[0].shape and self._mask_of(items[0]) is None

    def _write(self, func: Any, y: torch.Tensor, index: Any, value: Any) -> Any:
        items = index if isinstance(index, tuple) else (index,)
        mask = self._mask_of(value)
        if self._mask_of(y) is not None and items[0] is Ellipsis and not isinstance(value, torch.Tensor):
            return func(y, index, value)
        if mask is None or self._mask_of(y) is not None:
            if any(self._mask_of(v) is not None for v in (y, *items)):
                self._refuse("other values are written there")
            return func(y, index, value)
        whole = (slice(None),) * mask.dim()
        if items[0] is mask:
            place = (*whole, *items[1:])
        elif len(items) == mask.dim() and all(getattr(i, "_place_in", None) == (id(mask), d) for d, i in enumerate(items)):
            place = whole
        else:
            self._refuse("they are written at other places")
        old = y[place]
        rows = value.reshape(*mask.shape, *value.shape[1:])
        chosen = mask.reshape(*mask.shape, *[1] * (old.dim() - mask.dim()))
        return func(y, place, torch.where(chosen, rows.to(y.dtype), old))

    def _places(self, mask: torch.Tensor, apart: bool) -> Any:
        """Of all elements, in the order of those that the mask chooses."""
        self._lines[id(mask)] = lines.of_caller()
        rows = []
        for d, n in enumerate(mask.shape):
            place = torch.arange(n).reshape([-1 if i == d else 1 for i in range(mask.dim())]).expand(mask.shape).reshape(-1)
            place._place_in = (id(mask), d)
            rows.append(place)
        if apart:
            return tuple(self._mark(rows, mask))
        return self._mark(torch.stack(rows, 1), mask)
