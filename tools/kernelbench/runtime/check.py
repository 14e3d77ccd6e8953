#!/usr/bin/env python3
"""Checks and times the exported kernels against their problems, as KernelBench does. Needs PyTorch, a GPU and nvcc.

    python check.py                    every file of index.json: build, check, time
    python check.py level_1_problem_23 files whose name holds a word
    python check.py --jobs 8           build eight at a time
    python check.py --no-time          correctness only

Each file is built, checked and timed by a process of its own: evaluate_file.py, whose --help says what is compared.
Times are of a call and its synchronisation on the host's clock, as `cudal1 baseline` takes them: by measuring.py beside
this file and what it imports, which must stay the ones that measured the stored eager. One side after the other, the
caches flushed before each call; the ratio is that of the medians. Calls count where the host was as fast as when the
stored ones were measured, where that comes to pass.
Builds go to $TORCH_EXTENSIONS_DIR, else to build/ in this folder.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
SAME_CALL_TIME = 0.1  # differences of a call's time above it are said


def command(task: dict[str, Any], options: argparse.Namespace, *more: str) -> list[str]:
    return [sys.executable, str(HERE / "evaluate_file.py"), str(HERE / task["file"]), "--reference",
            str(HERE / task["problem_file"]), "--device", options.device, "--seconds", str(options.seconds),
            "--cores", options.cores, *(["--cast"] if task["level"] else []),
            *(["--no-time"] if options.no_time else []), *more]


def log_of(task: dict[str, Any]) -> pathlib.Path:
    return (HERE / task["file"]).with_suffix(".build.log")


def build_all(tasks: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, str]:
    """The builds, several at once, before anything is timed. What failed, with its log."""
    failed: dict[str, str] = {}
    waiting, running = list(tasks), {}
    while waiting or running:
        while waiting and len(running) < options.jobs:
            task = waiting.pop(0)
            log = open(log_of(task), "w", encoding="utf-8")
            running[task["file"]] = subprocess.Popen(command(task, options, "--build"), stdout=log, stderr=log), log
        for file, (process, log) in list(running.items()):
            if process.poll() is None:
                continue
            del running[file]
            log.close()
            if process.returncode == 0:
                pathlib.Path(log.name).unlink()
            else:
                failed[file] = f"the build failed: {log.name}"
            print(f"\rbuilt {len(tasks) - len(waiting) - len(running)} of {len(tasks)}", end="", flush=True,
                  file=sys.stderr)
        time.sleep(0.05)
    print(file=sys.stderr)
    return failed


def evaluated(task: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    pace_us = (task.get("eager") or {}).get("pace_us", 0)
    try:
        done = subprocess.run(command(task, options, "--pace-us", str(pace_us)), capture_output=True, text=True,
                              timeout=options.limit)
    except subprocess.TimeoutExpired:
        return {"error": f"it did not end within {options.limit:g} s"}
    if done.returncode == 0:
        return json.loads(done.stdout.strip().splitlines()[-1])
    if done.returncode < 0:
        return {"error": f"it ended Python with signal {-done.returncode}"}
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return {"error": lines[-1][:300]}


def over_then(now_us: float | None, then_us: float | None) -> str:
    return f"{now_us / then_us:.2f}" if now_us and then_us else "-"


def verdict(result: dict[str, Any]) -> str:
    if "error" in result:
        return "FAILED"
    if result["problem"]:
        return "WRONG"
    return "correct" if result["strict"] else "as eager"


def remarks(task: dict[str, Any], result: dict[str, Any]) -> list[str]:
    if "error" in result:
        return [result["error"]]
    said = [result["problem"]] if result["problem"] else []
    stored_us = (task.get("eager") or {}).get("variant_us") or task.get("best_us")
    if result.get("exported_us") and stored_us and abs(result["exported_us"] / stored_us - 1) > SAME_CALL_TIME:
        said.append(f"a call from Python takes {result['exported_us'] / stored_us:.2f} times the stored "
                    f"{stored_us:.1f} us")
    if result["ill_conditioned"]:
        said.append("ill-conditioned: eager itself misses 1e-4: " + ", ".join(
            f"{n['algorithm']} {n['difference']:.2g} ({n['excess']:.2g} times)"
            for n in result["noise"] if n["excess"] > 1))
    return said + result["notes"]


def row(task: dict[str, Any], result: dict[str, Any]) -> str:
    eager = task.get("eager") or {}
    was = f"{eager['speedup']:.2f}x" if eager else "-"
    host = over_then(result.get("pace_us"), eager.get("pace_us"))
    device = "/".join(over_then(result.get(f"{now}_device_us"), eager.get(f"{then}_device_us"))
                      for now, then in (("eager", "eager"), ("exported", "variant")))
    speed = f"{result['speedup']:.2f}x" if "speedup" in result else "-"
    times = f"{result['eager_us']:.1f} -> {result['exported_us']:.1f} us" if "speedup" in result else ""
    if "exported_device_us" in result:
        times += f" ({result['eager_device_us']:.1f} -> {result['exported_device_us']:.1f} on the device)"
    line = (f"{task['file']:56} {verdict(result):>9} {speed:>9} {was:>8} {host:>5} {device:>9} "
            f"{task['speedup']:>7.2f}x  {times}")
    return f"{line} {'; '.join(remarks(task, result))}".rstrip()


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only files whose name holds one of these")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="builds at once")
    parser.add_argument("--device", help="cuda, or cpu where PyTorch finds no GPU")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds for one file, without its build")
    parser.add_argument("--seconds", type=float, default=1.0,
                        help="of timing a side, where its median is not known to 1%% before")
    parser.add_argument("--cores", default="",
                        help="that timed calls are made on, on one that is fast, as in 6,7; all where not said")
    parser.add_argument("--no-time", action="store_true", help="correctness only")
    options = parser.parse_args()
    if options.device is None:
        import torch

        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    return options


def main() -> int:
    options = parsed()
    os.environ.setdefault("TORCH_EXTENSIONS_DIR", str(HERE / "build"))
    index = json.loads((HERE / "index.json").read_text(encoding="utf-8"))
    tasks = [t for t in index["tasks"]
             if t["file"] and (not options.words or any(w in t["file"] for w in options.words))]
    if not tasks:
        print("check: index.json has no file of that name", file=sys.stderr)
        return 2
    failed = build_all(tasks, options)
    results: dict[str, dict[str, Any]] = {}
    print("speedup: eager over exported, here and now; stored: the same as cudal1 measured it (index.json); host: how "
          "long known operators take, over then (above 1 eager is slower than it was, and the speedup larger); device: "
          "the device's times, of eager over then, and of exported over the variant's in cudal1's own runner; program: "
          "over the task's own program, both called from C++; verdict: correct at 1e-4, or as near to eager as eager is "
          "to itself")
    print(f"{'file':56} {'verdict':>9} {'speedup':>9} {'stored':>8} {'host':>5} {'device':>9} {'program':>8}  "
          "eager -> exported")
    for task in tasks:
        file = task["file"]
        results[file] = {"error": failed[file]} if file in failed else evaluated(task, options)
        print(row(task, results[file]), flush=True)
    (HERE / "check.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    right = [r for r in results.values() if "error" not in r and not r["problem"]]
    speedups = [r["speedup"] for r in right if "speedup" in r]
    mean = f"; geometric mean {statistics.geometric_mean(speedups):.3f}x" if speedups else ""
    print(f"{len(right)} of {len(tasks)} correct, {sum(r['strict'] for r in right)} at 1e-4{mean}")
    return 0 if len(right) == len(tasks) else 1


if __name__ == "__main__":
    sys.exit(main())
