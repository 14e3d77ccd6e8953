#!/usr/bin/env python3
"""Evaluates the products of tasks in 3xTF32 (three TF32 products on split operands) and lists where the gates refuse them.

  tests/gpu/check_precision.py CUDAL1 TASKS [--device cuda:0] [--only level1 level2] [--json FILE]

CUDAL1 is the program, TASKS a folder that `cudal1 tasks import` wrote. Each product is a variant of its own; speedups
are over the task's program. Exits with 1 if a product is refused.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys

PRODUCTS = {"aten::" + name for name in ("mm", "bmm", "matmul", "linear", "addmm", "baddbmm")}


def evaluate(cudal1: str, file: pathlib.Path, device: str, step: int) -> dict | str:
    """The verdict, or why there is none."""
    words = [cudal1, "evaluate", str(file), "--device", device, "--json"]
    words += ["--schedule", f"precision(step={step}, as=tf32x3)"]
    done = subprocess.run(words, capture_output=True, text=True)
    if not done.stdout.strip():
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
    return json.loads(done.stdout)["programs"][0]["result"]


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cudal1")
    ap.add_argument("tasks", type=pathlib.Path)
    ap.add_argument("--device", default="cuda:0")
    ap.add_argument("--only", nargs="*", default=["level1", "level2"], help="how the tasks' names begin")
    ap.add_argument("--json", type=pathlib.Path)
    o = ap.parse_args()
    rows, refused = [], 0
    for file in sorted(o.tasks.glob("*.json")):
        if not file.name.startswith(tuple(o.only)):
            continue
        task = json.loads(file.read_text())
        steps = [n for n, s in enumerate(task.get("steps", [])) if s.get("aten", "").split(".")[0] in PRODUCTS]
        # A step whose operands are of another type, or which is not a product of two matrices, cannot be split.
        allowed, why = [], ""
        for step in steps:
            v = evaluate(o.cudal1, file, o.device, step)
            if isinstance(v, str):
                why = v
                continue
            allowed.append(step)
            rows.append({"task": file.stem, "step": step, "outcome": v["result"], "reason": v.get("reason", ""),
                         "speedup": v["score"]})  # fmt: skip
            refused += v["result"] not in ("correct", "unmeasurable")
            print(f"{file.stem:58.58} step {step:3}  {v['result']:13} {v['score']:5.2f}x  {v.get('reason', '')[:110]}", flush=True)
        if steps and not allowed:
            print(f"{file.stem:58.58} not a product that can be split: {why[:150]}", flush=True)
    print(f"{len(rows)} products of {len({r['task'] for r in rows})} tasks: {len(rows) - refused} accepted, {refused} refused")
    if o.json:
        o.json.write_text(json.dumps(rows, indent=1))
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
