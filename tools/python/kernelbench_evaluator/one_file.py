#!/usr/bin/env python3
"""One stage of one file in this process, by `evaluation.py`: what the evaluator prints goes to a log, its result to a file.

    one_file.py STAGE CHECKOUT DEVICE RESULT [BUILDS PROBLEM SOURCE TRIALS]      STAGE: machine, build or judge
"""

from __future__ import annotations

import importlib.metadata
import json
import pathlib
import sys
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from importing.command_line import end_with_parent  # noqa: E402
from kernelbench_evaluator import checkout  # noqa: E402


def machine(device: str) -> dict[str, Any]:
    """What results depend on beside the files. NoEvaluator if the device is not there."""
    if not device.startswith("cuda"):
        return {"device": device, "torch": importlib.metadata.version("torch")}
    import torch

    if not torch.cuda.is_available():
        raise checkout.NoEvaluator("KernelBench's evaluator needs a GPU that PyTorch can use, and there is none")
    return {"device": torch.cuda.get_device_name(torch.device(device)), "torch": torch.__version__}


def main(words: list[str]) -> None:
    end_with_parent()
    stage, folder, device, result = words[:4]
    try:
        module = checkout.evaluator(pathlib.Path(folder))
        if stage == "machine":
            found = machine(device)
        else:
            builds, problem, source, trials = words[4:]
            text = pathlib.Path(source).read_text(encoding="utf-8")
            if stage == "build":
                checkout.build(module, text, builds)
                found = {}
            else:
                found = checkout.judge(module, pathlib.Path(problem).read_text(encoding="utf-8"), text, device, builds, int(trials))
    except checkout.NoEvaluator as error:
        found = {"problem": str(error)}
    pathlib.Path(result).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
