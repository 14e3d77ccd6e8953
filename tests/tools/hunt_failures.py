#!/usr/bin/env python3
"""Hunts for moves that make wrong programs: searches random tasks with random schedules on the CPU, and prints each
verdict that only a bug of cudal1 explains (`cudal1 failures`), with what reproduces it.

    tests/tools/hunt_failures.py BIN [--seed N] [--time SECONDS] [--out DIR]

BIN has cudal1, cudal1-node and cudal1-worker. The same seed makes the same tasks and the same schedules; how many of
them are reached depends on the machine. DIR (default: a temporary folder, kept if something is found) gets the tasks
and the failing programs. Exit codes: 0 nothing was found; 1 something was; 2 the hunt could not run.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

TASKS_A_ROUND = 6
EVALUATIONS = 10  # of each task
# How fast they are does not matter here: one pair of calls, however little it tells.
SETTINGS = ("timing.screening_forks=1", "timing.screening_pairs=1", "timing.max_forks=1", "timing.screening_half_width=10",
            "timing.screened_limit=10", "timing.confirmed_limit=10")
ROWS, COLUMNS = (1, 2, 3, 17, 64, 300), (1, 2, 5, 31, 32, 65, 257, 1024)
# Of one tensor, and bounded or nearly linear: errors of rounding stay small however many follow each other.
UNARY = ("relu", "sigmoid", "tanh", "silu", "gelu", "abs", "neg", "mish", "hardswish", "elu", "softplus")
BINARY = ("add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum")
Shape = tuple[int, ...]


class Builder:
    """A random task. Its steps' results are tensors of two or three dimensions."""

    def __init__(self, name: str, r: random.Random) -> None:
        self.name, self.r = name, r
        self.shapes: dict[str, Shape] = {}
        self.inputs: list[dict[str, Any]] = []
        self.weights: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        shape = (r.choice(ROWS), r.choice(COLUMNS))
        if r.random() < 0.3:
            shape = (r.choice((1, 2, 5)), *shape)
        self.input(shape)
        if r.random() < 0.5:
            self.input(shape[:-2] + r.choice([shape[-2:], (1, shape[-1]), (shape[-2], 1)]))
        while len(self.steps) < r.randint(2, 9):
            self.step()
        for v in self.unread():  # an output has memory of its own
            if self.made_by(v)["aten"] == "aten::transpose.int":
                self.add("relu", self.shapes[v], self=v)

    def declare(self, where: list[dict[str, Any]], prefix: str, shape: Shape, **more: Any) -> str:
        name = f"{prefix}{len(where)}"
        where.append({"name": name, "dtype": "float32", "shape": list(shape), **more})
        self.shapes[name] = shape
        return name

    def input(self, shape: Shape, **more: Any) -> str:
        return self.declare(self.inputs, "x", shape, **more)

    def weight(self, *shape: int) -> str:
        return self.declare(self.weights, "w", shape)

    def add(self, op: str, shape: Shape, /, **args: Any) -> str:
        out = f"v{len(self.steps)}"
        self.steps.append({"aten": f"aten::{op}", "args": args, "out": [out]})
        self.shapes[out] = shape
        return out

    def step(self) -> None:
        tensors = [n for n in self.shapes if not n.startswith("w")]
        # Late results more often: chains are what moves work on.
        v = self.r.choices(tensors, [2 ** min(i, 8) for i in range(len(tensors))])[0]
        s = self.shapes[v]
        makers = [self.unary, self.unary, self.scalar, self.binary, self.reduction, self.normalization, self.product]
        self.r.choice([*makers, self.transpose, self.scan])(v, s)

    def unary(self, v: str, s: Shape) -> None:
        self.add(self.r.choice(UNARY), s, self=v)

    def scalar(self, v: str, s: Shape) -> None:
        if self.r.random() < 0.3:
            self.add("clamp", s, self=v, min=-1.5, max=1.5)
        else:
            self.add(self.r.choice(("add.Scalar", "mul.Scalar")), s, self=v, other=self.r.choice((0.5, -1.25, 2.0)))

    def binary(self, v: str, s: Shape) -> None:
        fits = [n for n, t in self.shapes.items() if len(t) == len(s) and all(a in (b, 1) for a, b in zip(t, s))]
        other = self.weight(s[-1]) if self.r.random() < 0.3 else self.r.choice(fits)
        self.add(self.r.choice(BINARY), s, self=v, other=other)

    def reduction(self, v: str, s: Shape) -> None:
        dim = self.r.choice((len(s) - 1, len(s) - 1, len(s) - 2))
        kept = tuple(1 if i == dim else n for i, n in enumerate(s))
        self.add(self.r.choice(("mean.dim", "amax", "sum.dim_IntList")), kept, self=v, dim=[dim], keepdim=True)

    def normalization(self, v: str, s: Shape) -> None:
        if self.r.random() < 0.6:
            self.add(self.r.choice(("softmax.int", "log_softmax.int")), s, self=v, dim=len(s) - 1)
        elif s[-1] > 2:
            given = {"weight": self.weight(s[-1]), "bias": self.weight(s[-1])}
            self.add("layer_norm", s, input=v, normalized_shape=[s[-1]], eps=1e-5, **given)

    def product(self, v: str, s: Shape) -> None:
        columns = self.r.choice((1, 8, 33, 64))
        if len(s) == 2 and self.r.random() < 0.3:
            fact = self.r.choice(("diagonal", "upper_triangular", "lower_triangular"))
            self.add("mm", s, self=v, mat2=self.input((s[1], s[1]), facts=[fact]))
        elif self.r.random() < 0.5:
            args = {"bias": self.weight(columns)} if self.r.random() < 0.7 else {}
            self.add("linear", (*s[:-1], columns), input=v, weight=self.weight(columns, s[-1]), **args)
        elif len(s) == 2:
            self.add("mm", (s[0], columns), self=v, mat2=self.weight(s[1], columns))

    def transpose(self, v: str, s: Shape) -> None:
        self.add("transpose.int", (*s[:-2], s[-1], s[-2]), self=v, dim0=len(s) - 2, dim1=len(s) - 1)

    def scan(self, v: str, s: Shape) -> None:
        if self.r.random() < 0.3:
            self.add("cumsum", s, self=v, dim=len(s) - 1)

    def made_by(self, v: str) -> dict[str, Any]:
        return next(s for s in self.steps if s["out"] == [v])

    def unread(self) -> list[str]:
        read = {a for s in self.steps for a in s["args"].values() if isinstance(a, str)}
        return [s["out"][0] for s in self.steps if s["out"][0] not in read]

    def task(self) -> dict[str, Any]:
        outputs = self.unread()[-3:]
        needed, steps = set(outputs), []
        for s in reversed(self.steps):
            if s["out"][0] in needed:
                steps.insert(0, s)
                needed |= {a for a in s["args"].values() if isinstance(a, str)}
        used = {key: [t for t in tensors if t["name"] in needed]
                for key, tensors in (("inputs", self.inputs), ("weights", self.weights))}
        return {"format": 1, "name": self.name, "summary": "made by hunt_failures.py", "family": "random", **used,
                "steps": steps, "outputs": outputs}


class Hunt:
    def __init__(self, bin_folder: pathlib.Path, out: pathlib.Path, seed: int, seconds: float) -> None:
        self.program, self.out, self.seed = str(bin_folder / "cudal1"), out, seed
        self.end = time.monotonic() + seconds
        self.tasks = self.evaluations = 0
        self.found: list[dict[str, Any]] = []

    def cudal1(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.program, *words, "--data", str(self.out / "data")], capture_output=True, text=True)

    def answer(self, *words: str) -> dict[str, Any]:
        done = self.cudal1(*words, "--json")
        if done.returncode != 0:
            raise SystemExit(f"cudal1 {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def write_tasks(self, number: int) -> pathlib.Path:
        r = random.Random(f"{self.seed}/{number}")
        folder = self.out / f"tasks_{number}"
        folder.mkdir(parents=True)
        for i in range(TASKS_A_ROUND):
            task = Builder(f"hunted_{number}_{i}", r).task()
            path = folder / f"{task['name']}.json"
            path.write_text(json.dumps(task, indent=1) + "\n")
        checked = self.cudal1("tasks", "--tasks", str(folder), "--device", "cpu")
        if checked.returncode != 0:
            raise SystemExit(f"the generator wrote a task that is refused: {checked.stderr.strip()}")
        self.tasks += TASKS_A_ROUND
        return folder

    def round(self, number: int) -> None:
        folder = self.write_tasks(number)
        left = max(5, int(self.end - time.monotonic()))
        report = self.answer(
            "run", "--tasks", str(folder), "--device", "cpu", "--policy", "random", "--seed", str(self.seed + number),
            "--evaluations", str(EVALUATIONS), "--time", f"{left}s",
            *(word for setting in SETTINGS for word in ("--set", setting)),
        )  # fmt: skip
        self.evaluations += report["evaluations"]
        for failure in self.answer("failures", "--experiment", report["experiment"])["failures"]:
            self.show(folder, failure)

    def show(self, folder: pathlib.Path, failure: dict[str, Any]) -> None:
        program = self.out / f"{failure['name']}_{failure['variant'][:12]}.cu1"
        program.write_text(self.cudal1("show", failure["variant"], "--program").stdout)
        self.found.append(failure)
        task = folder / f"{failure['name']}.json"
        print(f"{failure['outcome']} ({failure['gate'] or 'no gate'}): {failure['reason']}")
        print(f"  schedule: {failure['schedule']}")
        print(f"  in no correct variant: {'; '.join(failure['only_here']) or 'none of these moves'}")
        print(f"  again: {self.program} evaluate {task} {program} --device cpu", flush=True)

    def run(self) -> None:
        number = 0
        try:
            while time.monotonic() < self.end:
                self.round(number)
                number += 1
        finally:
            self.cudal1("stop", "--node")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time", type=float, default=120)
    parser.add_argument("--out", type=pathlib.Path)
    o = parser.parse_args()
    out = (o.out or pathlib.Path(tempfile.mkdtemp(prefix="cudal1-hunt-"))).resolve()
    hunt = Hunt(o.bin.resolve(), out, o.seed, o.time)
    hunt.run()
    print(f"seed {o.seed}: {hunt.tasks} tasks, {hunt.evaluations} evaluations, {len(hunt.found)} failures that only a "
          f"bug explains")
    if hunt.found:
        print(f"kept in {out}")
    elif o.out is None:
        shutil.rmtree(out)
    return 1 if hunt.found else 0


if __name__ == "__main__":
    sys.exit(main())
