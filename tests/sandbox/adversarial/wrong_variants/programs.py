"""Tasks as described by `cudal1 tasks --json`, programs for `cudal1 evaluate` (a JSON head, a line `---`, CUDA C++),
and changes that turn a correct program into a wrong one."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from typing import Any, Callable

POINTWISE_BLOCK = 256
ROW_BLOCK = {"cpu": 8, "cuda": 32}  # threads per block if a thread computes a row


@dataclasses.dataclass(frozen=True)
class Tensor:
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def rows(self) -> int:
        return self.elements // self.columns

    @property
    def columns(self) -> int:
        return self.shape[-1] if self.shape else 1

    def described(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "shape": list(self.shape)}


@dataclasses.dataclass(frozen=True)
class Task:
    name: str
    profile: str  # of the sizes: "cpu" or "cuda"
    inputs: dict[str, Tensor]
    weights: dict[str, Tensor]
    outputs: dict[str, Tensor]

    def tensor(self, name: str) -> Tensor:
        for tensors in (self.inputs, self.weights, self.outputs):
            if name in tensors:
                return tensors[name]
        raise KeyError(f"the task {self.name} has no tensor {name}")

    @property
    def output(self) -> str:
        return next(iter(self.outputs))


class Program:
    """A head and a source; `alloc`, `aten` and `launch` append steps."""

    def __init__(self, task: Task, source: str = ""):
        self.task = task
        self.source = source
        self.head: dict[str, Any] = {
            "format": 1, "name": "variant",
            "inputs": [{"name": name, **t.described()} for name, t in task.inputs.items()],
            "weights": [{"name": name, **t.described()} for name, t in task.weights.items()],
            "steps": [], "outputs": list(task.outputs)}
        self.raw: str | None = None  # replaces the whole text

    def text(self) -> str:
        if self.raw is not None:
            return self.raw
        return json.dumps(self.head) + "\n" + (f"---\n{self.source}" if self.source else "")

    def alloc(self, name: str, shape: tuple[int, ...] | None = None, dtype: str = "float32") -> Program:
        tensor = self.task.tensor(name) if shape is None else Tensor(dtype, shape)
        self.head["steps"].append({"alloc": name, **tensor.described()})
        return self

    def aten(self, op: str, out: str, /, **args: Any) -> Program:
        self.head["steps"].append({"aten": f"aten::{op}", "args": args, "out": [out]})
        return self

    def launch(self, kernel: str, threads: int, args: list[str], block: int = POINTWISE_BLOCK) -> Program:
        """Arguments are given as "in x", "out y", "i32 1024"; the grid has enough blocks for the threads."""
        self.head["steps"].append({"launch": kernel, "grid": [-(-threads // block), 1, 1], "block": [block, 1, 1],
                                   "args": [argument(a) for a in args]})
        return self

    def launch_rows(self, kernel: str, rows: int, args: list[str]) -> Program:
        return self.launch(kernel, rows, args, ROW_BLOCK[self.task.profile])

    def step(self, kind: str, name: str) -> dict[str, Any]:
        """The step that allocates, launches or calls `name`."""
        for step in self.head["steps"]:
            if step.get(kind) == name:
                return step
        raise KeyError(f"no step {kind} {name}")


def argument(text: str) -> dict[str, Any]:
    kind, value = text.split()
    if kind in ("i32", "i64"):
        return {kind: int(value)}
    if kind in ("f32", "f64"):
        return {kind: float(value)}
    return {kind: value}


# ---- changes --------------------------------------------------------------------------------------------------------

Change = Callable[[Program], None]


def edit(old: str, new: str, times: int = 1) -> Change:
    """Replaces text of the source. Checks how often the text occurs, so that a change cannot miss its place."""
    def change(p: Program) -> None:
        found = p.source.count(old)
        if found != times:
            raise ValueError(f"{p.task.name}: {old!r} occurs {found} times in the source, not {times}")
        p.source = p.source.replace(old, new)
    return change


STORE = "y[i] = r;"  # the last statement of a pointwise kernel (correct_pointwise.py)


def store(expression: str) -> Change:
    """Stores another value."""
    return edit(STORE, f"y[i] = {expression};")


def after(statement: str, more: str) -> Change:
    """Inserts a statement after another."""
    return edit(statement, f"{statement}\n    {more}")


def before(statement: str, more: str) -> Change:
    return edit(statement, f"{more}\n    {statement}")


def add_source(text: str) -> Change:
    def change(p: Program) -> None:
        p.source = text + "\n" + p.source
    return change


def grid(kernel: str, numerator: int, denominator: int) -> Change:
    """Keeps only a share of the blocks."""
    def change(p: Program) -> None:
        launch = p.step("launch", kernel)
        blocks = launch["grid"][0]
        launch["grid"][0] = max(1, blocks * numerator // denominator)
        if launch["grid"][0] == blocks:
            raise ValueError(f"{p.task.name}: all {blocks} blocks are kept")
    return change


def set_head(*path_and_value: Any) -> Change:
    """set_head("steps", 0, "shape", [4]) sets head["steps"][0]["shape"]."""
    *path, last, value = path_and_value

    def change(p: Program) -> None:
        at = p.head
        for key in path:
            at = at[key]
        at[last] = copy.deepcopy(value)
    return change


def drop_head(*path: Any) -> Change:
    *to, last = path

    def change(p: Program) -> None:
        at = p.head
        for key in to:
            at = at[key]
        del at[last]
    return change


def with_head(action: Callable[[Program], Any]) -> Change:
    """Any other change, of the head or depending on the task's sizes."""
    def change(p: Program) -> None:
        action(p)
    return change


def argument_of(kernel: str, index: int, text: str) -> Change:
    return with_head(lambda p: p.step("launch", kernel)["args"].__setitem__(index, argument(text)))


def swap_arguments(kernel: str, first: int, second: int) -> Change:
    def change(p: Program) -> None:
        args = p.step("launch", kernel)["args"]
        args[first], args[second] = args[second], args[first]
    return change


def aten_argument(op: str, name: str, value: Any) -> Change:
    """Sets an argument of an ATen step of the program."""
    return with_head(lambda p: p.step("aten", f"aten::{op}")["args"].__setitem__(name, value))
