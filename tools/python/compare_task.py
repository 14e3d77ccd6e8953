#!/usr/bin/env python3
"""Whether the steps of an imported task give what its model gives, on a device of this machine: for `cudal1 run`, here
or on another machine, of tasks that were not compared when they were imported, since the CPU is too slow for them or
casts otherwise.

One call of the steps, one call after the other by PyTorch, beside two calls of the model, with the same inputs and
weights. They agree if they give the same bits, or differ by no more than the model's own two calls, or than rounding
where they sum terms (importing/replay.py).

THE MODEL'S SOURCE IS EXECUTED, as you, without a sandbox.

Prints {"differs": "", "uncompared": "", "rounding": 0.0, "notes": []}: what differs, or why nothing could be compared.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import pathlib
import signal
import sys
import warnings
from typing import Any

from task_model import module_of


def steps_of(task: dict[str, Any], blobs: pathlib.Path, read_tensors: Any, refused: type[Exception]) -> Any:
    """A module of the task's steps, with its own weights."""
    steps = module_of(task).Model()
    files: dict[str, dict] = {}
    for i, declared in enumerate(task.get("weights", [])):
        content = declared.get("content")
        if content is None:
            raise refused(f"its weight {declared['name']} has no content")
        if content["file"] not in files:
            files[content["file"]] = read_tensors(blobs / content["file"])
        setattr(steps, f"w{i}", files[content["file"]][content["tensor"]])
    return steps


def compare(task: dict[str, Any], blobs: pathlib.Path, device: Any, sums: bool) -> dict[str, Any]:
    import torch
    from importing.autocasting import UNLIKE_CPU
    from importing.checkpoint import read_tensors
    from importing.replay import rounding_between, same
    from verify_tasks import Eager, NotCompared, difference, free_gpu_memory, on_device

    if task["origin"].get("part"):
        raise NotCompared("it is one module of its model")
    if device.type == "cpu" and task["origin"].get("uncompared") == UNLIKE_CPU:
        raise NotCompared(UNLIKE_CPU)
    eager = Eager(task, blobs, device)
    eager.check_weights(task, blobs)
    expected, again = eager.run(), eager.run()
    given = on_device(device, eager.given())
    del eager
    free_gpu_memory(device)
    with torch.inference_mode():
        made = steps_of(task, blobs, read_tensors, NotCompared).to(device)(*given)
        made = [x.cpu().contiguous() for x in (made if isinstance(made, (tuple, list)) else [made])]
    answer: dict[str, Any] = {"differs": "", "uncompared": "", "rounding": 0.0, "notes": []}
    for name, a, b, c in zip(task["outputs"], made, expected, again, strict=True):
        if b.numel() and not b.isfinite().any():
            answer["notes"].append(f"its output {name} has no finite element")
        if same(a, b):
            continue
        rounding = rounding_between(a, b) if sums else None
        off = difference(a, b, device)
        if rounding is not None:
            answer["rounding"] = max(answer["rounding"], rounding)
        elif not off.within(difference(c, b, device)):
            answer["differs"] = f"output {name} is off by up to {off.largest:.3g}"
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", help="a task file whose sizes are numbers")
    parser.add_argument("--blobs", required=True, type=pathlib.Path, metavar="DIR", help="its weights and source")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--sums", action="store_true", help="it sums terms, in products or convolutions")
    o = parser.parse_args()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # when the parent process ends: no orphan occupies the device
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    warnings.filterwarnings("ignore")
    import torch
    from importing.refusal import Refused
    from importing.source import one_line
    from verify_tasks import NotCompared

    with open(o.task, encoding="utf-8") as file:
        task = json.load(file)
    nothing = {"differs": "", "rounding": 0.0, "notes": []}
    try:
        answer = compare(task, o.blobs, torch.device(o.device), o.sums)
    except (NotCompared, Refused) as e:
        answer = {**nothing, "uncompared": str(e)}
    except Exception as e:  # of the model's own code, or of the device's memory
        answer = {**nothing, "uncompared": one_line(e)}
    answers.write(json.dumps(answer) + "\n")
    answers.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
