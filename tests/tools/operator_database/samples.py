"""Calls of PyTorch's operator database (torch.testing._internal's op_db): the samples that PyTorch tests itself with,
in several element types and memory layouts."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool)
LAYOUTS = ("contiguous", "channels-last", "expanded", "sliced")
# "recorded": as torch.export records it; "core": decomposed to the core set of ATen's before.
FORMS = ("recorded", "core")


@dataclasses.dataclass
class Sample:
    operator: str  # OpInfo's full name
    dtype: torch.dtype
    layout: str
    form: str
    number: int  # among the database's for the dtype
    call: Callable[..., Any]  # of the bases
    bases: list[torch.Tensor]  # contiguous; `call` makes views of them where the layout is another one
    widened: Callable[..., Any]  # the same in float64
    compact: Callable[..., Any]  # the same with contiguous copies of the views

    @property
    def name(self) -> str:
        return f"{self.operator} {dtype_text(self.dtype)} {self.layout} {self.form} #{self.number}"


def dtype_text(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def operator_names() -> list[str]:
    return [o.full_name for o in op_db]


def _spread(items: list[Any], limit: int) -> list[tuple[int, Any]]:
    """At most so many, from the first to the last in equal distances."""
    if len(items) <= limit:
        return list(enumerate(items))
    places = dict.fromkeys(round(i * (len(items) - 1) / max(limit - 1, 1)) for i in range(limit))
    return [(i, items[i]) for i in places]


# ---- layouts --------------------------------------------------------------------------------------------------------


def _laid_out(t: torch.Tensor, layout: str) -> tuple[torch.Tensor, Callable | None]:
    """A contiguous tensor and the view of it that has the layout and the type of `t`; None where it needs none, or
    cannot have it. The elements of an expanded one are others."""
    if layout == "channels-last" and t.dim() >= 2 and t.numel():
        moved = t.movedim(1, -1).contiguous()
        return moved, lambda x: x.movedim(-1, 1)
    if layout == "expanded" and t.dim() >= 1 and t.shape[0] > 1 and t.numel():
        shape = list(t.shape)
        return t.narrow(0, 0, 1).clone(), lambda x: x.expand(shape)
    if layout == "sliced" and t.dim() >= 1 and t.numel():
        wide = t.repeat_interleave(2, dim=-1).contiguous()
        return wide, lambda x: x[..., ::2]
    return t.detach().clone(memory_format=torch.contiguous_format), None


def float64(x: Any) -> Any:
    if isinstance(x, torch.Tensor) and x.is_floating_point():
        return x.double()
    return torch.float64 if isinstance(x, torch.dtype) and x.is_floating_point else x


def _sample(op: Any, found: Any, dtype: torch.dtype, layout: str, form: str, number: int) -> Sample | None:
    leaves, spec = tree_flatten((found.input, found.args, found.kwargs))
    tensors = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    if not tensors and layout != "contiguous":
        return None
    laid_out = [_laid_out(leaves[i], layout) for i in tensors]
    if layout != "contiguous" and all(view is None for _, view in laid_out):
        return None

    def caller(change: Callable[[Any], Any], copies: bool = False) -> Callable[..., Any]:
        def call(*bases: torch.Tensor) -> Any:
            given = [change(x) for x in leaves]
            for i, base, (_, view) in zip(tensors, bases, laid_out):
                seen = base if view is None else view(base)
                given[i] = seen.contiguous() if copies else seen
            first, rest, named = tree_unflatten(given, spec)
            device = bases[0].device if bases else torch.get_default_device()
            named = {k: device if k == "device" and v is not None else v for k, v in named.items()}
            return op(first, *rest, **named)

        return call

    bases = [base for base, _ in laid_out]
    as_it_is, compact = caller(lambda x: x), caller(lambda x: x, copies=True)
    return Sample(op.full_name, dtype, layout, form, number, as_it_is, bases, caller(float64), compact)


# ---- which ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Choice:
    """How many samples of each operator, at most."""

    plain: int = 8  # float32, contiguous, as recorded
    dtypes: int = 2  # of each other dtype
    layouts: int = 2  # of each other layout, in float32 and in bfloat16
    core: int = 2


def combinations(choice: Choice) -> Iterator[tuple[torch.dtype, str, str, int]]:
    yield torch.float32, "contiguous", "recorded", choice.plain
    for dtype in DTYPES[1:]:
        yield dtype, "contiguous", "recorded", choice.dtypes
    for layout in LAYOUTS[1:]:
        yield torch.float32, layout, "recorded", choice.layouts
    for layout in LAYOUTS[1:]:
        yield torch.bfloat16, layout, "recorded", choice.layouts // 2
    for layout in LAYOUTS:
        yield torch.float32, layout, "core", choice.core
    yield torch.bfloat16, "contiguous", "core", choice.core // 2
    yield torch.int64, "contiguous", "core", choice.core // 2


def _suits_a_task(found: Any) -> bool:
    """A task's tensors are dense and have elements."""
    tensors = [x for x in tree_leaves((found.input, found.args, found.kwargs)) if isinstance(x, torch.Tensor)]
    return all(x.layout == torch.strided and not x.is_nested and x.numel() for x in tensors)


def samples_of(op: Any, wanted: Iterator[tuple[torch.dtype, str, str, int]]) -> Iterator[Sample]:
    """Deterministic: each dtype's samples come from the same seed."""
    found: dict[torch.dtype, list[Any]] = {}
    for dtype, layout, form, limit in wanted:
        if dtype not in op.dtypes or limit == 0:
            continue
        if dtype not in found:
            torch.manual_seed(0)
            found[dtype] = [s for s in op.sample_inputs("cpu", dtype) if _suits_a_task(s)]
        for number, sample in _spread(found[dtype], limit):
            made = _sample(op, sample, dtype, layout, form, number)
            if made is not None:
                yield made


def fast_choice(place: int) -> Iterator[tuple[torch.dtype, str, str, int]]:
    """One plain sample, and one of each of three other combinations, which go round with the operator's place."""
    others = [c[:3] for c in combinations(Choice())][1:]
    yield torch.float32, "contiguous", "recorded", 1
    for step in range(2):
        yield *others[(place * 2 + step) % len(others)], 1
