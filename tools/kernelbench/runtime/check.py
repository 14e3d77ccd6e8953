#!/usr/bin/env python3
"""Checks and times the exported kernels against their references, as KernelBench does. Needs PyTorch, a GPU and nvcc.

    python check.py                    every file of this folder: build, check, time
    python check.py level1_problem_23  files whose name contains a word
    python check.py --jobs 8           build eight at a time
    python check.py --no-time          correctness only

The reference of a file is the class Model in it, which is the problem's own. Both sides are made after
set_seed(42); five draws of get_inputs, one call after the other, are compared with allclose at 1e-2 and at 1e-4, and
once more of deep copies and after a round trip of the reference's weights through state_dict. Times are of a call and its synchronisation on the host's clock, as
`cudal1 baseline` takes them: by measuring.py beside this file and what it imports, which must stay the ones that
measured the stored eager. One side after the other, the caches flushed before each call; the ratio is that of the medians. Calls count
where the host was as fast as when the stored ones were measured, where that comes to pass.
Builds go to $TORCH_EXTENSIONS_DIR, else to build/ in this folder.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time
import types
from typing import Any

import host_pace
import measuring
import pytorch_calls
import torch

HERE = pathlib.Path(__file__).resolve().parent
SEED = 42
TOLERANCES = (1e-2, 1e-4)


def set_seed(seed: int) -> None:
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed(seed)


def load(path: pathlib.Path) -> types.ModuleType:
    """Imports a file, which builds its kernels if that was not done yet."""
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    return module


def leaves(value: Any) -> list[torch.Tensor]:
    return [v for v in torch.utils._pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def moved(value: Any, device: torch.device) -> Any:
    return torch.utils._pytree.tree_map(lambda v: v.to(device) if isinstance(v, torch.Tensor) else v, value)


def make(cls: Any, module: types.ModuleType, device: torch.device) -> torch.nn.Module:
    set_seed(SEED)
    arguments = module.get_init_inputs()
    set_seed(SEED)
    model = cls(**arguments) if isinstance(arguments, dict) else cls(*arguments)
    return model.to(device)


def largest_difference(wanted: list[torch.Tensor], got: list[torch.Tensor]) -> tuple[float, dict[float, bool]]:
    """The largest absolute difference, and whether all are within each tolerance."""
    if [(t.shape, t.dtype) for t in wanted] != [(t.shape, t.dtype) for t in got]:
        return float("inf"), dict.fromkeys(TOLERANCES, False)
    worst, close = 0.0, dict.fromkeys(TOLERANCES, True)
    for a, b in zip(wanted, got):
        a, b = (t.float() if t.dtype == torch.bool else t for t in (a, b))
        if a.numel():
            worst = max(worst, (a - b).abs().max().item())
        for t in TOLERANCES:
            close[t] = close[t] and torch.allclose(a, b, rtol=t, atol=t)
    return worst, close


def check(module: types.ModuleType, device: torch.device, draws: int) -> dict[str, Any]:
    reference, exported = make(module.Model, module, device), make(module.ModelNew, module, device)
    rng = random.Random(SEED)
    result: dict[str, Any] = {"draws": draws, "difference": 0.0, **{f"close_{t:g}": True for t in TOLERANCES}}

    def compare(left: torch.nn.Module, right: torch.nn.Module) -> None:
        set_seed(rng.randrange(2**31))
        inputs = moved(module.get_inputs(), device)
        others = torch.utils._pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, inputs)
        # A forward may write into its inputs: what it leaves in them counts, too.
        wanted = [t.clone() for t in leaves(left(*inputs))] + leaves(inputs)
        worst, close = largest_difference(wanted, leaves(right(*others)) + leaves(others))
        result["difference"] = max(result["difference"], worst)
        for t in TOLERANCES:
            result[f"close_{t:g}"] = result[f"close_{t:g}"] and close[t]

    with torch.no_grad():
        for _ in range(draws):
            compare(reference, exported)
        # Copies go on from where these are.
        compare(copy.deepcopy(reference), copy.deepcopy(exported))
        # Other weights, through the state dictionary of a module that was made apart.
        set_seed(SEED + 1)
        for tensor in reference.state_dict().values():
            if tensor.is_floating_point():
                tensor.mul_(1.25)
        exported.load_state_dict(reference.state_dict())
        compare(reference, exported)
    result["notes"] = exported.kernel_notes()
    return result


def times(module: types.ModuleType, device: torch.device, options: argparse.Namespace) -> dict[str, float]:
    """The medians of both sides, over the same rotation of inputs, their ratio, and how fast the host was."""
    pytorch_calls.load_torch()
    with torch.no_grad():
        reference = pytorch_calls.Subject(module, SEED, device)
        exported = copy.copy(reference)
        exported.model = make(module.ModelNew, module, device)
        sides = [pytorch_calls.Calls("eager", reference), pytorch_calls.Calls("exported", exported)]
        clock = pytorch_calls.Clock(device, 0)
        for side in sides:
            side.prepare()
        pace = host_pace.Pace(device, options.pace_us)
        for side in sides:
            measuring.measure(clock, pace, side, {"seconds": options.seconds, "least_samples": 10,
                                                  "cores": options.cores})
    eager_us, exported_us = (statistics.median(side.call_us) for side in sides)
    result = {"eager_us": eager_us, "exported_us": exported_us, "speedup": eager_us / exported_us,
              "pace_us": sides[0].pace_us}
    if all(side.device_us for side in sides):
        eager_us, exported_us = (statistics.median(side.device_us) for side in sides)
        result.update(eager_device_us=eager_us, exported_device_us=exported_us)
    return result


def one(path: pathlib.Path, options: argparse.Namespace) -> dict[str, Any]:
    """Runs in a process of its own, so that a fault of one file does not affect the next."""
    module = load(path)
    if options.build:
        return {}
    device = torch.device(options.device)
    result = check(module, device, options.draws)
    # So that timed tensors are not allocated from fragments that the checks have left.
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    if not options.no_time:
        result.update(times(module, device, options))
    return result


def command(name: str, options: argparse.Namespace, *more: str) -> list[str]:
    return [sys.executable, __file__, "--one", name, "--device", options.device, "--draws", str(options.draws),
            "--seconds", str(options.seconds), "--cores", ",".join(map(str, options.cores)),
            *(["--no-time"] if options.no_time else []), *more]


def build_all(names: list[str], options: argparse.Namespace) -> dict[str, str]:
    """Builds all files, several at once, before anything is timed. Returns the failures."""
    failed: dict[str, str] = {}
    waiting, running = list(names), {}
    while waiting or running:
        while waiting and len(running) < options.jobs:
            name = waiting.pop(0)
            log = open(HERE / f"{name}.build.log", "w", encoding="utf-8")
            running[name] = subprocess.Popen(command(name, options, "--build"), stdout=log, stderr=log), log
        for name, (process, log) in list(running.items()):
            if process.poll() is None:
                continue
            del running[name]
            log.close()
            if process.returncode == 0:
                pathlib.Path(log.name).unlink()
            else:
                failed[name] = f"the build failed: {log.name}"
            print(f"\rbuilt {len(names) - len(waiting) - len(running)} of {len(names)}", end="", flush=True,
                  file=sys.stderr)
        time.sleep(0.05)
    print(file=sys.stderr)
    return failed


def stored_speedups() -> dict[str, Any]:
    try:
        index = json.loads((HERE / "index.json").read_text(encoding="utf-8"))
    except OSError:
        return {}
    return {t["file"]: t for t in index["tasks"] if t.get("file")}


def over_then(now_us: float | None, then_us: float | None) -> str:
    return f"{now_us / then_us:.2f}" if now_us and then_us else "-"


def row(name: str, result: dict[str, Any], known: dict[str, Any]) -> str:
    eager = known.get("eager") or {}
    was = f"{eager['speedup']:.2f}x" if eager else "-"
    host = over_then(result.get("pace_us"), eager.get("pace_us"))
    device = "/".join(over_then(result.get(f"{now}_device_us"), eager.get(f"{then}_device_us"))
                      for now, then in (("eager", "eager"), ("exported", "variant")))
    over_program = f"{known['speedup']:.2f}x" if "speedup" in known else "-"
    if "error" in result:
        return f"{name:44} {'FAILED':>9} {'-':>9} {was:>8} {'-':>5} {'-/-':>9} {over_program:>8}  {result['error']}"
    verdict = "correct" if result["close_0.0001"] else "loose" if result["close_0.01"] else "WRONG"
    speed = f"{result['speedup']:.2f}x" if "speedup" in result else "-"
    times = f"{result['eager_us']:.1f} -> {result['exported_us']:.1f} us" if "speedup" in result else ""
    if "exported_device_us" in result:
        times += f" ({result['eager_device_us']:.1f} -> {result['exported_device_us']:.1f} on the device)"
    line = f"{name:44} {verdict:>9} {speed:>9} {was:>8} {host:>5} {device:>9} {over_program:>8}  {times}"
    return f"{line} {'; '.join(result['notes'])}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only files whose name contains one of these")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="builds at once")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0,
                        help="most seconds of timing for a side; it ends earlier if the median is known to 1%%")
    parser.add_argument("--cores", type=lambda text: [int(word) for word in text.split(",") if word], default=[],
                        help="cores for timed calls, as in 6,7: a fast one of them is used; default: all")
    parser.add_argument("--no-time", action="store_true", help="correctness only")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--pace-us", type=float, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--build", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("TORCH_EXTENSIONS_DIR", str(HERE / "build"))
    if options.one:
        print(json.dumps(one(HERE / f"{options.one}.py", options)))
        return 0
    if torch.cuda.is_available() and "TORCH_CUDA_ARCH_LIST" not in os.environ:
        os.environ["TORCH_CUDA_ARCH_LIST"] = ".".join(map(str, torch.cuda.get_device_capability()))
    stored = stored_speedups()
    names = sorted(p.stem for p in HERE.glob("*_kernel.py"))
    names = [n for n in names if not options.words or any(w in n for w in options.words)]
    if not names:
        print("check: there is no *_kernel.py of that name here", file=sys.stderr)
        return 2
    failed = build_all(names, options)
    results: dict[str, dict[str, Any]] = {}
    print("speedup: eager over exported, measured now; stored: the same as cudal1 measured it (index.json); host: the "
          "time of known operators now over then (above 1 eager is slower than it was, and the speedup larger); device: "
          "device times, of eager now over then, and of exported over the variant's in cudal1's own runner; program: "
          "over the task's own program, both called from C++; verdict: at 1e-4, loose at 1e-2")
    print(f"{'file':44} {'verdict':>9} {'speedup':>9} {'stored':>8} {'host':>5} {'device':>9} {'program':>8}  "
          "eager -> exported")
    for name in names:
        known = stored.get(f"{name}.py", {})
        if name in failed:
            results[name] = {"error": failed[name]}
        else:
            pace_us = (known.get("eager") or {}).get("pace_us", 0)
            done = subprocess.run(command(name, options, "--pace-us", str(pace_us)), capture_output=True, text=True)
            if done.returncode == 0:
                results[name] = json.loads(done.stdout.strip().splitlines()[-1])
            else:
                lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
                results[name] = {"error": lines[-1][:300]}
        print(row(name, results[name], known), flush=True)
    (HERE / "check.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    right = [r for r in results.values() if r.get("close_0.01")]
    speedups = [r["speedup"] for r in right if "speedup" in r]
    mean = f"; geometric mean {statistics.geometric_mean(speedups):.3f}x" if speedups else ""
    print(f"{len(right)} of {len(names)} correct at 1e-2, {sum(r['close_0.0001'] for r in right)} at 1e-4{mean}")
    return 0 if len(right) == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
