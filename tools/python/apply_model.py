#!/usr/bin/env python3
"""`cudal1 apply MODEL`: a whole model before and after, in this process: its call as PyTorch makes it, with the variants of a
package, and as torch.compile (on a GPU also max-autotune and a CUDA graph) makes it. Calls of all alternate in random
order on the same inputs; ratios have 95% intervals. Faster is only what is faster than eager by its whole interval, and
whose outputs are no further from float64 than eager's allow.

THE MODEL'S FILE IS EXECUTED, as you, without a sandbox.

Exit codes: 0 faster; 1 not faster, or wrong; 2 the command line; 3 nothing can be measured here."""

from __future__ import annotations

import argparse
import copy
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any, Callable

import pytorch_calls
from opened_package import NoPackage, opened

LEAST_ROUNDS, MOST_ROUNDS = 12, 3000
SEED = 42


class NotMeasured(Exception):
    """Why there is no result; the text says what to do."""


# ---- the model and its package --------------------------------------------------------------------------------------


def problems_of(o: argparse.Namespace) -> list[tuple[str, str]]:
    """The model with each of its example inputs: a task's name, and the source as a task has it."""
    from importing import problems, targets
    from importing.refusal import Refused
    from importing.source import ImportsNeighbour, Loaded, OtherInputs

    try:
        problem = problems.find_problems([o.model])[0]
        problems.check_syntax(problem)
        if not problem.target and not o.inputs:
            try:
                if Loaded(problem).is_complete():
                    return [(problem.name, problem.code.decode())]
            except (OtherInputs, ImportsNeighbour):
                pass
        return [(a.problem.name, a.problem.code.decode()) for a in targets.adapted(problem, o.inputs)]
    except Refused as e:
        raise NotMeasured(str(e)) from e


def package_of(o: argparse.Namespace, names: list[str], scratch: str) -> Any:
    """The named one, or one of the variants that the store has of the model."""
    if o.package:
        return opened(o.package)
    folder = str(pathlib.Path(scratch) / "applied")
    words = [o.cudal1, "export", folder, "--format", "torch", "--no-check", "--data", o.data]
    words += ["--precision", o.precision] if o.precision else []
    done = subprocess.run([*words, *[w for n in names for w in ("--task", n)]], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise NotMeasured(f"there are no variants of {', '.join(names)} to apply: `cudal1 run {o.model}` searches for them"
                          + (f"\n{done.stdout.strip()}" if done.stdout.strip() else ""))
    return opened(folder)


def subject_of(source: str, name: str, folder: str, device: Any) -> pytorch_calls.Subject:
    """A new model each, since torch.compile and graphs change what they are given."""
    file = pathlib.Path(folder) / f"{name}.py"
    file.write_text(source, encoding="utf-8")
    return pytorch_calls.Subject(pytorch_calls.load_module(str(file)), SEED, device)


# ---- measurements ---------------------------------------------------------------------------------------------------


def kinds_of(device: Any, wanted: list[str]) -> list[str]:
    usual = ["compile"] + (["max-autotune", "graph"] if device.type == "cuda" else [])
    return usual if not wanted else [k for k in wanted if k not in ("none", "eager")]


def prepared(kind: str, subject: Any) -> tuple[pytorch_calls.Calls | None, float, str]:
    """Ready to be timed, how long that took, or why it is not."""
    begin = time.perf_counter()
    try:
        calls = pytorch_calls.CALLS.get(kind, pytorch_calls.Calls)(kind, subject)
        calls.prepare()
        return calls, time.perf_counter() - begin, ""
    except Exception as e:  # whatever a compiler of PyTorch's fails with
        lines = [line.strip() for line in str(e).splitlines() if line.strip()]
        return None, time.perf_counter() - begin, f"{type(e).__name__}: {lines[0] if lines else ''}"[:300]


def alternated(clock: Any, sides: list[Any], seconds: float) -> None:
    """Times in `call_us` and, on a GPU, `device_us` of each: rounds of one call of each, in random order."""
    drawn = random.Random(SEED)
    draws = sides[0].subject.draws
    begin = time.monotonic()
    for i in range(MOST_ROUNDS):
        given = draws[i % len(draws)]
        order = list(sides)
        drawn.shuffle(order)
        for calls in order:
            calls.call_us.append(clock.call(calls, given))
        if clock.device.type == "cuda" and i % 4 == 0:
            for calls in order:
                took = clock.on_device(calls, given)
                while took is None:  # the spinning was too short to hide the launches; it is longer now
                    took = clock.on_device(calls, given)
                calls.device_us.append(took)
        if i + 1 >= LEAST_ROUNDS and time.monotonic() - begin >= seconds:
            break


def peak_bytes(device: Any, call: Callable) -> int:
    """The most memory that a call's tensors take at a time, beyond what was in use."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiled:
        call()
    changes = [e for e in profiled.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = most = 0
    for e in sorted(changes, key=lambda e: e.start_ns()):
        now += e.nbytes()
        most = max(most, now)
    return most


def exact_outputs(subject: Any, given: list) -> tuple[list, str]:
    """The model's outputs in float64, or why there are none."""
    import torch

    try:
        with torch.no_grad():
            exact = copy.deepcopy(subject.model).double()
            as_double = pytorch_calls.map_tensors(given, lambda t: t.double() if t.is_floating_point() else t)
            return pytorch_calls.tensors_of(exact(*as_double)), ""
    except Exception as e:  # a model that names its types
        return [], f"the model does not run in float64 ({type(e).__name__}: {e})"[:200]


def strict_error(checks: Any, held: Any, eager: Any, exact: list, given: list) -> float:
    """Eager's error without TF32."""
    import torch

    with torch.no_grad(), held.eager_flags():
        return checks.error_of(pytorch_calls.tensors_of(eager.run(given)), exact)


def side_result(checks: Any, calls: Any, eager: Any, exact: list, given: list, held: Any) -> dict[str, Any]:
    import torch

    with torch.no_grad():
        calls.settle()
        found = [t.clone() for t in pytorch_calls.tensors_of(calls.run(given))]
        eager.settle()
        wanted = [t.clone() for t in pytorch_calls.tensors_of(eager.run(given))]
    speedup, low, high = checks.ratio_interval(eager.call_us, calls.call_us)
    result = {"call_us": statistics.median(calls.call_us), "speedup": speedup, "interval": [low, high],
              "rounds": len(calls.call_us), "differs": checks.why_different(found, wanted, *held),
              "error": checks.error_of(found, exact) if exact else None}
    if calls.device_us:
        ratio, low, high = checks.ratio_interval(eager.device_us, calls.device_us)
        result.update(device_us=statistics.median(calls.device_us), device_speedup=ratio, device_interval=[low, high])
    with torch.no_grad():
        calls.settle()
        result["peak_bytes"] = peak_bytes(calls.subject.device, lambda: calls.run(given))
    return result


def measured(o: argparse.Namespace, package: Any, name: str, source: str, scratch: str) -> dict[str, Any]:
    import importlib

    import torch

    checks = importlib.import_module(f"{package.name}._cudal1.checks")
    device = torch.device(o.device)
    eager = pytorch_calls.Calls("eager", subject_of(source, name, scratch, device))
    fast = pytorch_calls.Calls("cudal1", subject_of(source, name, scratch, device))
    given = eager.subject.draws[0]
    entry = next((p for p in package.index["programs"] if p["task"] == name), {})
    precision = entry.get("precision", "eager")
    held = () if precision == "eager" else (checks.held_to(entry),)  # packages of earlier versions know no other
    result: dict[str, Any] = {"task": name, "precision": precision, "sides": {}, "notes": []}
    if "of its memory at most" in (details := entry.get("environment", {}).get("details", "")):
        result["notes"].append("searched with" + details[details.rindex("of its memory at most") - 1:].partition(";")[0])
    model = next((m["name"] for m in package.index["models"] if any(c["task"] == name for c in m["cases"])), None)
    try:
        fast.subject.model = package.optimize(fast.subject.model, model)
    except Exception as e:
        raise NotMeasured(f"{name}: {e}") from e
    sides, subjects = [], [eager.subject, fast.subject]
    with torch.no_grad():
        for calls in (eager, fast):
            calls.prepare()
        ran = package.report().calls
        fast.run(given)
        if package.report().calls == ran:
            why = ", ".join(package.report().eager) or "no variant fits"
            raise NotMeasured(f"{name}: the module runs the model's own forward: {why}")
        sides += [eager, fast]
        for kind in kinds_of(device, o.beside):
            subject = subject_of(source, name, scratch, device)
            calls, took, why = prepared(kind, subject)
            if calls is None:
                result["notes"].append(f"{kind} cannot be measured: {why}")
                continue
            calls.prepare_s = took
            sides.append(calls)
            subjects.append(subject)
        for subject in subjects:
            subject.draws = eager.subject.draws  # the same inputs
        clock = pytorch_calls.Clock(device, 0)
        alternated(clock, sides, o.seconds)
    exact, why = exact_outputs(eager.subject, given)
    if why:
        result["notes"].append(f"no errors against float64: {why}")
    for calls in sides:
        result["sides"][calls.kind] = side_result(checks, calls, eager, exact, given, held if calls is fast else ())
        if calls.prepare_s:
            result["sides"][calls.kind]["prepare_s"] = calls.prepare_s
    allowed_by = result["sides"]["eager"]["error"]
    if precision == "strict" and exact:
        allowed_by = result["strict_error"] = strict_error(checks, held[0], eager, exact, given)
    result.update(verdict_of(checks, result["sides"], o.than, held, allowed_by,
                             checks.dtype_of(pytorch_calls.tensors_of(eager.run(given)))))
    for calls in sides:
        calls.close()
    return result


def verdict_of(checks: Any, sides: dict[str, Any], than: list[str], held: tuple, eager_error: float | None,
               dtype: Any) -> dict[str, Any]:
    """Faster than each of `than` by its whole interval, and right."""
    mine = sides["cudal1"]
    if mine["differs"]:
        return {"verdict": "wrong", "why": mine["differs"]}
    if mine["error"] is not None and checks.is_worse(mine["error"], eager_error, dtype, *held):
        return {"verdict": "wrong", "why": f"its error against float64 is {mine['error']:.3g}, eager's {eager_error:.3g}"}
    for kind in than:
        if kind not in sides:
            return {"verdict": "not faster", "why": f"{kind} was not measured"}
        low = mine["interval"][0] if kind == "eager" else mine["speedup"] / sides[kind]["speedup"]
        if kind != "eager" and mine["interval"][0] <= sides[kind]["interval"][1] or low <= 1:
            return {"verdict": "not faster", "why": f"it is not faster than {kind} by more than the interval"}
    return {"verdict": "faster", "why": ""}


# ---- the report -----------------------------------------------------------------------------------------------------


def text_of(result: dict[str, Any]) -> str:
    lines = [f"{result['task']}: {result['verdict']}" + (f": {result['why']}" if result["why"] else "")]
    if result["precision"] != "eager":
        lines.append(f"  its variant is held to precision {result['precision']}")
    on_device = any("device_us" in s for s in result["sides"].values())
    lines.append(f"  {'':14}{'call':>12}{'over eager, 95%':>24}" + (f"{'device':>12}" if on_device else "")
                 + f"{'memory':>12}{'error':>10}")
    for kind, s in result["sides"].items():
        ratio = f"{s['speedup']:.2f}x [{s['interval'][0]:.2f}, {s['interval'][1]:.2f}]" if kind != "eager" else ""
        device = f"{s['device_us']:9.1f} us" if on_device else ""
        error = f"{s['error']:.1e}" if s["error"] is not None else "-"
        lines.append(f"  {kind:14}{s['call_us']:9.1f} us{ratio:>24}{device:>12}{s['peak_bytes'] / 2**20:8.1f} MiB{error:>10}"
                     if on_device else
                     f"  {kind:14}{s['call_us']:9.1f} us{ratio:>24}{s['peak_bytes'] / 2**20:8.1f} MiB{error:>10}")
    return "\n".join(lines + [f"  {n}" for n in result["notes"]])


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("model")
    parser.add_argument("--package", default="")
    parser.add_argument("--precision", default="")
    parser.add_argument("--cudal1", default="cudal1")
    parser.add_argument("--data", default="")
    parser.add_argument("--device", default="")
    parser.add_argument("--inputs", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--beside", action="append", default=[])
    parser.add_argument("--than", action="append", default=[])
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args(words)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the model prints
    warnings.filterwarnings("ignore")
    sys.dont_write_bytecode = True
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # it complains where there is no GPU
    pytorch_calls.load_torch()
    import torch

    o.device = o.device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    o.than = o.than or ["eager"]
    if o.threads:
        torch.set_num_threads(o.threads)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            found = problems_of(o)
            package = package_of(o, [name for name, _ in found], scratch)
            results = [measured(o, package, name, source, scratch) for name, source in found]
    except NoPackage as e:
        print(f"cudal1: {e}", file=sys.stderr)
        return 2
    except NotMeasured as e:
        print(f"cudal1: {e}", file=sys.stderr)
        return 3
    code = 0 if all(r["verdict"] == "faster" for r in results) else 1
    document = {"model": o.model, "package": package.name, "device": o.device, "threads": torch.get_num_threads(),
                "torch": torch.__version__, "results": results, "exit_code": code}
    print(json.dumps(document, indent=2) if o.json else "\n".join(map(text_of, results)), file=answers)
    answers.close()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
