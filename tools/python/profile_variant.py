#!/usr/bin/env python3
"""Where a variant's time goes, for `cudal1 profile`: its steps one by one, by PyTorch's profiler, and on a GPU what Nsight
Compute reads of the kernels of one call (folder nsight).

    profile_variant.py STAGING --library CPU_KERNELS.so --runtime RUNTIME.so [--device D] [--calls N] [--json] [--width N]
        [--ncu auto|off|PATH] [--ncu-csv FILE] [--counters FILE] [--roof-us T --roof-limit memory|compute]

STAGING is what tools/cli/commands/package_staging wrote, with one variant. --counters writes what Nsight Compute read (as
store/counter_profile.hpp). Exit codes: 0 printed, 3 it cannot run here.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import os
import pathlib
import signal
import statistics
import sys
import textwrap
from typing import Any, Callable

HERE = pathlib.Path(__file__).resolve().parent
WARM_UP = 3
FLUSHED_TIMES = 2.5  # what is written between calls, in sizes of a GPU's second-level cache
FLUSHED_ON_CPU = 64 << 20
CANNOT = 3


class Cannot(Exception):
    """Why it cannot be profiled here."""


class Variant:
    """A staged variant, loaded on a device."""

    def __init__(self, torch: Any, o: argparse.Namespace):
        from task_model import draw
        from torch_package.runtime import kernels_cpu, kernels_cuda, native
        from torch_package.runtime.constants import read_tensors
        from torch_package.staged import SEPARATOR
        from torch_package.writing import RUNTIME_TORCH

        folder = o.staging / "000"
        self.facts = json.loads((folder / "variant.json").read_text(encoding="utf-8"))
        self.task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
        self.head = json.loads((folder / "program.cu1").read_text(encoding="utf-8").partition(SEPARATOR)[0])
        plan = (folder / "plan.json").read_text(encoding="utf-8")
        self.plan = json.loads(plan)
        self.sizes = {v["dtype"]: getattr(torch, v["dtype"]).itemsize for v in self.plan["values"]}
        self.device = torch.device(o.device)
        problem = native.problem_with(o.runtime, RUNTIME_TORCH)
        if problem:
            raise Cannot(problem)
        kernels = None
        if (folder / "kernels.object").is_file():
            if self.device.type == "cpu":
                kernels = kernels_cpu.Library(folder / "kernels.object", o.library, self.facts["architecture"])
            else:
                here = kernels_cuda.architecture_of(self.device)
                if here != self.facts["architecture"]:
                    raise Cannot(f"it was compiled for {self.facts['architecture']}, and {self.device} is {here}")
                kernels = kernels_cuda.Library(kernels_cuda.cubins_in((folder / "kernels.object").read_bytes()), self.device)
        self.function = native.Function(plan, bool(self.head.get("setup")), kernels, self.device)

        def drawn(declaration: dict) -> Any:
            content = declaration.get("content", {})
            fixed = content.get("fixed")
            t = read_tensors(o.staging / "blobs" / content["file"], content["tensor"])[content["tensor"]] if fixed else \
                draw(torch, declaration)
            return t.to(self.device)

        self.inputs = [drawn(d) for d in self.task["inputs"]]
        self.weights = [drawn(d) for d in self.task.get("weights", [])]
        self.kept = self.function.setup(self.weights)

    def call(self) -> None:
        self.function.steps(self.inputs, self.weights, self.kept)

    def bytes_of(self, step: dict) -> int:
        """Of the tensors that a step names."""
        places = [a["slot"] for a in step.get("args", []) if "slot" in a]
        places += [p for a in step.get("args", []) for p in a.get("slots", [])] + step.get("out", [])
        total = 0
        for v in {p for p in places if p >= 0}:
            declared = self.plan["values"][v]
            total += math.prod(declared["shape"]) * self.sizes[declared["dtype"]]
        return total


def profiled(torch: Any, variant: Variant, calls: int) -> list[dict[str, Any]]:
    """What each step took, in its order: the median of the calls, in microseconds, and its kernels on a GPU."""
    on_gpu = variant.device.type == "cuda"
    if on_gpu:
        count = int(FLUSHED_TIMES * torch.cuda.get_device_properties(variant.device).L2_cache_size)
    else:
        count = FLUSHED_ON_CPU
    flushed = torch.zeros(count // 4, device=variant.device)
    for _ in range(WARM_UP):
        variant.call()
    kinds = torch.profiler.ProfilerActivity
    activities = [kinds.CPU, *([kinds.CUDA] if on_gpu else [])]
    with torch.profiler.profile(activities=activities, acc_events=True) as profiler:
        for _ in range(calls):
            flushed.add_(1)
            variant.call()
        if on_gpu:
            torch.cuda.synchronize(variant.device)
    times, kernels = collections.defaultdict(list), {}
    labels = {s["label"] for s in variant.plan["steps"]}
    for event in profiler.events():
        if event.name not in labels:
            continue
        times[event.name].append(event.device_time_total if on_gpu else event.cpu_time_total)
        found = kernels.setdefault(event.name, collections.defaultdict(list))
        for kernel in kernels_of(event):
            found[kernel.name].append(kernel.duration)
    resources = {r["kernel"]: r for r in variant.facts.get("resources", [])}
    steps = []
    for s in variant.plan["steps"]:
        label, moved = s["label"], variant.bytes_of(s)
        took = statistics.median(times[label]) if times[label] else 0.0
        step: dict[str, Any] = {"step": label, "is_alloc": "alloc" in s, "us": took, "bytes": moved,
                                "kernels": [{"name": name, "us": sum(us) / len(times[label]),
                                             "launches": len(us) / len(times[label])}
                                            for name, us in kernels.get(label, {}).items()]}
        if "launch" in s:
            own = resources.get(s["launch"], {})
            step |= {"kernel": s["launch"], "grid": s["grid"], "block": s["block"], "shared_bytes": s["shared_bytes"]}
            step |= {k: own[k] for k in ("registers", "static_shared_bytes", "stack_bytes", "spill_store_bytes") if k in own}
        steps.append(step)
    return steps


def one_call(torch: Any, variant: Variant) -> None:
    """What runs under Nsight Compute: its kernels between start and stop are read."""
    for _ in range(WARM_UP):
        variant.call()
    torch.cuda.synchronize(variant.device)
    torch.cuda.profiler.start()
    variant.call()
    torch.cuda.synchronize(variant.device)
    torch.cuda.profiler.stop()


def counters_of(o: argparse.Namespace) -> tuple[Any, str]:
    """What Nsight Compute reads, or why it was not read."""
    from nsight import reading

    if o.ncu == reading.NEVER:
        return None, ""
    if not o.device.startswith("cuda"):
        return None, f"it reads GPUs, and this was measured on {o.device}"
    program = [sys.executable, str(pathlib.Path(__file__).resolve()), str(o.staging), "--library", str(o.library),
               "--runtime", str(o.runtime), "--device", o.device, "--one-call"]
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ncu and its program end, too
    try:
        return reading.read(o.ncu, program, o.ncu_csv), ""
    except reading.NotRead as e:
        return None, str(e)
    finally:
        signal.signal(signal.SIGTERM, before)


def nsight_text(o: argparse.Namespace, read: Any, why_not: str) -> str:
    from nsight import tables

    if read is None:
        return f"\nNsight Compute was not read: {why_not}.\n" if why_not else ""
    width = o.width if o.width > 0 else 120
    lines = [f"\nOne call by the counters of Nsight Compute {read.tool}, with empty caches and the clocks as they are; shares "
             "of the GPU's peaks", "", tables.table(read.kernels, width, time_text), "",
             *textwrap.wrap(tables.roof_line(read.kernels, o.roof_us, o.roof_limit, time_text), width)]
    return "\n".join(lines + ([f"Note: {read.note}."] if read.note else [])) + "\n"


def on_timing_core(work: Callable) -> Any:
    """In turns with nodes and referees, which time on the last core as well."""
    from core_turns import CoreTurns

    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    turns = CoreTurns([core])
    try:
        with turns:
            return work()
    finally:
        turns.close()


def kernels_of(event: Any) -> list[Any]:
    found = list(event.kernels)
    for child in event.cpu_children:
        found += kernels_of(child)
    return found


def size_text(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.3g} {unit}" if unit != "B" else f"{count:.0f} B"
        count /= 1024
    return ""


def time_text(us: float) -> str:
    return f"{us / 1000:.3g} ms" if us >= 1000 else f"{us:.3g} us"


def about(step: dict[str, Any]) -> str:
    """What is known of a step's work, in words."""
    words = []
    if "kernel" in step:
        sizes = [" x ".join(str(n) for n in step[k] if n != 1) or "1" for k in ("grid", "block")]
        words.append(f"grid {sizes[0]}, block {sizes[1]}")
        if step["shared_bytes"]:
            words.append(f"{size_text(step['shared_bytes'])} shared")
        if step.get("registers"):
            words.append(f"{step['registers']} registers")
        if step.get("spill_store_bytes"):
            words.append(f"{step['spill_store_bytes']} bytes spilled")
    else:
        words += [f"{k['name'][:60]} {time_text(k['us'])}" for k in sorted(step["kernels"], key=lambda k: -k["us"])[:3]]
    return ", ".join(words)


def table(steps: list[dict[str, Any]], width: int) -> str:
    total = sum(s["us"] for s in steps)
    steps = [s for s in steps if not s["is_alloc"]]
    rows = [("step", "time", "share", "bytes", "GB/s", "")]
    for s in steps:
        speed = f"{s['bytes'] / s['us'] / 1000:.0f}" if s["us"] else "-"
        rows.append((s["step"], time_text(s["us"]), f"{s['us'] / total:.1%}" if total else "-", size_text(s["bytes"]), speed,
                     about(s)))
    rows.append(("all", time_text(total), "", "", "", ""))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = []
    for row in rows:
        head = row[0].ljust(widths[0]) + "".join("  " + row[i].rjust(widths[i]) for i in range(1, 5))
        if len(head) + 2 + len(row[5]) <= width:
            lines.append(f"{head}  {row[5]}".rstrip())
        else:
            lines += [head, *textwrap.wrap(row[5], max(width - 4, 20), initial_indent="    ", subsequent_indent="    ")]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("staging", type=pathlib.Path)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--runtime", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--width", type=int, default=120)
    parser.add_argument("--ncu", default="off", help="Nsight Compute: auto, off, or the path of ncu")
    parser.add_argument("--ncu-csv", type=pathlib.Path, help="a file for what ncu prints")
    parser.add_argument("--counters", type=pathlib.Path, help="a file for what was read")
    parser.add_argument("--roof-us", type=float, default=0, help="the least device time of the task")
    parser.add_argument("--roof-limit", default="", help="what limits that")
    parser.add_argument("--one-call", action="store_true", help="run it as it is run under ncu")
    o = parser.parse_args()
    sys.path.insert(0, str(HERE))
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # not that there is no GPU
    import torch

    from nsight.reading import NoSuchProgram
    from torch_package.runtime.program import PackageError

    if o.device.startswith("cuda") and int(o.device.partition(":")[2] or 0) >= torch.cuda.device_count():
        print(f"cudal1: there is no {o.device} here, on which it was measured", file=sys.stderr)
        return CANNOT
    try:
        if o.device == "cpu":
            torch.set_num_threads(1)  # as it was measured
        if o.one_call:
            one_call(torch, Variant(torch, o))
            return 0
        read, why_not = counters_of(o)  # before this process uses the GPU
        variant = Variant(torch, o)
        steps = on_timing_core(lambda: profiled(torch, variant, o.calls)) if o.device == "cpu" else \
            profiled(torch, variant, o.calls)
    except (Cannot, PackageError, NoSuchProgram) as e:
        print(f"cudal1: {e}", file=sys.stderr)
        return CANNOT
    name = torch.cuda.get_device_name(variant.device) if variant.device.type == "cuda" else "one thread"
    if read is not None and o.counters:
        o.counters.write_text(json.dumps({"model": name, "tool": read.tool, "kernels": read.kernels}), encoding="utf-8")
    if o.json:
        print(json.dumps({"task": variant.facts["task"], "variant": variant.facts["variant"], "device": o.device, "model": name,
                          "calls": o.calls, "measured_us": variant.facts["variant_us"], "steps": steps,
                          "nsight": None if read is None else vars(read), "nsight_not_read": why_not,
                          "roof_us": o.roof_us or None}))
        return 0
    print(f"{variant.facts['task']}, variant {variant.facts['variant'][:12]} on {o.device} ({name}); its call was measured as "
          f"{time_text(variant.facts['variant_us'])}\n")
    print(table(steps, o.width if o.width > 0 else 120))
    print(nsight_text(o, read, why_not), end="")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
