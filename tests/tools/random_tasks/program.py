"""A program under construction. PyTorch's meta tensors give the shapes, types and strides of its values."""

from __future__ import annotations

import math
import random
from typing import Any

import torch

LARGEST = 1 << 18  # elements of a value


class Value(str):
    """The name of a value; other strings are arguments."""


class Unfit(Exception):
    """The step fits neither these operands nor the limits."""


class Program:
    """A program under construction, with a meta tensor for each value."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.values: dict[str, torch.Tensor] = {}
        self.inputs: list[dict[str, Any]] = []
        self.weights: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.dtype = r.choices((torch.float32, torch.float16, torch.bfloat16, torch.float64), (60, 16, 20, 4))[0]

    def declare(self, where: list[dict[str, Any]], prefix: str, shape: Any, dtype: torch.dtype, **more: Any) -> Value:
        name = Value(f"{prefix}{len(where)}")
        if math.prod(shape) > LARGEST:
            raise Unfit
        where.append({"name": name, "dtype": str(dtype)[6:], "shape": list(shape), **more})
        self.values[name] = torch.empty(list(shape), dtype=dtype, device="meta")
        return name

    def input(self, *shape: int, dtype: torch.dtype | None = None, **more: Any) -> Value:
        """Of the program's own type unless said otherwise."""
        dtype = dtype or self.dtype
        if dtype == torch.bool:
            more["draw"] = {"distribution": "bernoulli", "probability": self.r.choice((0.1, 0.5, 0.9))}
        return self.declare(self.inputs, "x", shape, dtype, **more)

    def indices(self, *shape: int, below: int, dtype: torch.dtype = torch.int64) -> Value:
        return self.input(*shape, dtype=dtype, draw={"distribution": "integer", "low": 0, "high": below})

    def weight(self, *shape: int, like: Value | None = None, positive: bool = False) -> Value:
        """Scaled by its fan-in, as models initialise them."""
        draw: dict[str, Any] = {"distribution": "normal", "mean": 0, "std": 1 / math.sqrt(max(1, math.prod(shape[1:])))}
        if positive:
            draw = {"distribution": "uniform", "low": 0.5, "high": 2, "min": 0.1}
        dtype = self.values[like].dtype if like is not None else self.dtype
        return self.declare(self.weights, "w", shape, dtype, draw=draw)

    def call(self, op: str, /, **args: Any) -> Any:
        """Adds a step; the name of its result, or the names of its results."""
        packet, _, overload = op.partition(".")
        function = getattr(getattr(torch.ops.aten, packet), overload or "default")
        try:
            made = function(**{k: self.concrete(k, v) for k, v in args.items()})
        except (RuntimeError, IndexError, ValueError, AssertionError) as refused:
            raise Unfit from refused
        results = [made] if isinstance(made, torch.Tensor) else list(made)
        if not all(0 < t.numel() <= LARGEST for t in results):
            raise Unfit
        names = [Value(f"v{len(self.steps)}" + (f"_{i}" if len(results) > 1 else "")) for i in range(len(results))]
        self.steps.append({"aten": f"aten::{op}", "args": args, "out": names})
        self.values.update(zip(names, results))
        return names[0] if isinstance(made, torch.Tensor) else names

    def concrete(self, key: str, v: Any) -> Any:
        if isinstance(v, Value):
            return self.values[v]
        if isinstance(v, list):
            return [self.concrete("", each) for each in v]
        return getattr(torch, v) if key in ("dtype", "memory_format") else v

    def tensor(self, v: str) -> torch.Tensor:
        return self.values[v]

    def shape(self, v: str) -> list[int]:
        return list(self.values[v].shape)

    def rank(self, v: str) -> int:
        return self.values[v].dim()

    def is_parameter(self, v: str) -> bool:
        """Also a view of one: its values are the same in every variant, so that it may be compared."""
        storage = self.values[v].untyped_storage()._cdata
        return any(self.values[d["name"]].untyped_storage()._cdata == storage for d in self.inputs + self.weights)

    def shares_memory(self, v: str) -> bool:
        storage = self.values[v].untyped_storage()._cdata
        return sum(t.untyped_storage()._cdata == storage for t in self.values.values()) > 1

    def state(self) -> tuple[Any, ...]:
        return dict(self.values), len(self.inputs), len(self.weights), len(self.steps)

    def restore(self, state: tuple[Any, ...]) -> None:
        self.values, inputs, weights, steps = state
        del self.inputs[inputs:], self.weights[weights:], self.steps[steps:]
