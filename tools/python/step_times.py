#!/usr/bin/env python3
"""How long PyTorch takes for each step of a task, one after the other, for `cudal1 tasks --times` and `cudal1 run`.

The times are those of eager mode: the host's clock, and on a GPU a synchronisation, stand between the steps. They say
which steps matter; no speedup is computed from them.

Prints {"step_us": [...], "calls": 5, "torch": "..."}: medians over the calls.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from typing import Any

from task_model import module_of


def median_times(torch: Any, task: dict, device: Any, seconds: float) -> tuple[list[float], int]:
    """In microseconds. At least one call besides the first, which does not count."""
    module = module_of(task, after_step="mark()")
    marks: list[float] = []

    def mark() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        marks.append(time.perf_counter())

    module.Model.forward.__globals__["mark"] = mark
    torch.manual_seed(0)
    model = module.Model().to(device)
    inputs = [x.to(device) for x in module.get_inputs()]
    model(*inputs)
    calls: list[list[float]] = []
    end = time.monotonic() + seconds
    while not calls or (time.monotonic() < end and len(calls) < 100):
        marks.clear()
        mark()
        model(*inputs)
        calls.append([1e6 * (b - a) for a, b in zip(marks, marks[1:])])
    return [statistics.median(of_step) for of_step in zip(*calls)], len(calls)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", help="a task file whose sizes are numbers")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--threads", type=int, default=1, help="on the CPU")
    parser.add_argument("--seconds", type=float, default=2.0, help="of calls, at least one")
    o = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(o.threads)
    with open(o.task, encoding="utf-8") as file:
        task = json.load(file)
    with torch.no_grad():
        times, calls = median_times(torch, task, torch.device(o.device), o.seconds)
    answers.write(json.dumps({"step_us": times, "calls": calls, "torch": torch.__version__}) + "\n")
    answers.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
