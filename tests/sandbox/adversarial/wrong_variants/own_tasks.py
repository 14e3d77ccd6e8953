"""Tasks of this corpus, for kinds of errors that are impossible in the built-in tasks: outputs with NaN and infinity,
inputs that are never negative, integer, boolean and half outputs, two outputs, an output with transposed strides."""

from __future__ import annotations

import json
import pathlib
from typing import Any

SIZES = {"cpu": {"N": 512, "C": 512}, "cuda": {"N": 2048, "C": 2048}}
UNIFORM = {"distribution": "uniform", "low": 0, "high": 1}


def aten(op: str, out: str | list[str], **args: Any) -> dict[str, Any]:
    return {"aten": f"aten::{op}", "args": args, "out": [out] if isinstance(out, str) else out}


def task(name: str, summary: str, steps: list[dict[str, Any]], outputs: list[str], dtype: str = "float32",
         draw: dict[str, Any] | None = None) -> dict[str, Any]:
    x: dict[str, Any] = {"name": "x", "dtype": dtype, "shape": ["N", "C"]}
    if draw:
        x["draw"] = draw
    return {"format": 1, "name": name, "summary": summary, "family": "test", "sizes": SIZES, "inputs": [x],
            "weights": [], "steps": steps, "outputs": outputs}


OWN_TASKS = [
    task("relu_of_uniform", "ReLU of what is never negative as declared", [aten("relu", "y", self="x")], ["y"],
         draw=UNIFORM),
    task("root_of_normal", "square roots, half of them NaN", [aten("sqrt", "y", self="x")], ["y"]),
    task("reciprocal_of_relu", "reciprocals, half of them infinite",
         [aten("relu", "p", self="x"), aten("reciprocal", "y", self="p")], ["y"]),
    task("log_of_relu", "logarithms, half of them minus infinity",
         [aten("relu", "p", self="x"), aten("log", "y", self="p")], ["y"]),
    task("row_argmax", "the place of each row's largest element", [aten("argmax", "y", self="x", dim=1)], ["y"]),
    task("positive_mask", "which elements are above a half", [aten("gt.Scalar", "y", self="x", other=0.5)], ["y"]),
    task("half_relu", "ReLU of half-precision numbers", [aten("relu", "y", self="x")], ["y"], dtype="float16"),
    task("row_sum_and_max", "two results: each row's sum and its largest element",
         [aten("sum.dim_IntList", "total", self="x", dim=[1]), aten("amax", "top", self="x", dim=[1])],
         ["total", "top"]),
    task("almost_constant", "an output that hardly varies",
         [aten("mul.Scalar", "small", self="x", other=3e-6), aten("add.Scalar", "y", self="small", other=1.0)], ["y"]),
    task("turned_relu", "ReLU, given back with rows and columns exchanged",
         [aten("relu", "p", self="x"), aten("t", "y", self="p")], ["y"]),
]


def write_own_tasks(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for one in OWN_TASKS:
        (folder / f"{one['name']}.json").write_text(json.dumps(one))
