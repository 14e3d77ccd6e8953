#!/usr/bin/env python3
"""Accepts exported files without any of our own checks: a plain harness, as a user would write one, and, where a checkout
is named, KernelBench's own evaluator, unchanged. By hand, on a machine with a GPU and nvcc.

    python3 tests/tools/accept_exports EXPORTED [--kernelbench CHECKOUT] [--device cuda:0] [--jobs N] [--json FILE] [NAME ...]

EXPORTED is the folder that `cudal1 export --format kernelbench` wrote; NAMEs are words of the tasks wanted. Each file runs in
a process of its own: Model and ModelNew after the same seed, five calls of the same two modules in a row on fresh
inputs, every tensor of the outputs with allclose at 1e-4 (1e-2 for half types), else at 1e-2; and the medians of twenty
calls with their synchronisation, while no other file uses the GPU. An output of a half type that is beyond 1e-2 is
right all the same where it is as near as eager's to the output of the model in float32. The evaluator is called as
`cudal1 bench evaluator` calls it (tools/python/kernelbench_evaluator), which needs numpy and pydantic. Where it raises,
which is where it cannot run the problem's own Model (it casts integer inputs), the file counts as not judged. Exit codes:
0 all files are right and accepted, 1 one is not, 2 the harness could not run.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import copy
import fcntl
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import types
from typing import Any, Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools" / "python"))

from kernelbench_evaluator import checkout  # noqa: E402

CALLS, TIMED_CALLS, SEED, SECONDS = 5, 20, 20261123, 420


def tensors_of(value: Any) -> list[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for item in value.values() for t in tensors_of(item)]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in tensors_of(item)]
    return [t for item in vars(value).values() for t in tensors_of(item)] if hasattr(value, "__dict__") else []


def moved(value: Any, device: str) -> Any:
    import torch

    return torch.utils._pytree.tree_map(lambda v: v.to(device) if isinstance(v, torch.Tensor) else v, value)


def compare(expected: Any, got: Any) -> tuple[bool, float, str]:
    """Whether all are within the close tolerance, the largest relative difference, and what is wrong beyond 1e-2."""
    import torch

    close, largest = True, 0.0
    # The two files may each define the same dataclass.
    if type(expected) is not type(got) and type(expected).__qualname__ != type(got).__qualname__:
        return False, 0, f"a {type(got).__name__} for a {type(expected).__name__}"
    pairs = list(zip(tensors_of(expected), tensors_of(got)))
    if len(tensors_of(expected)) != len(tensors_of(got)) or not pairs:
        return False, 0, f"{len(tensors_of(got))} tensors for {len(tensors_of(expected))}"
    for e, g in pairs:
        if e.shape != g.shape or e.dtype != g.dtype:
            return False, 0, f"{g.dtype}{list(g.shape)} for {e.dtype}{list(e.shape)}"
        if not e.is_floating_point():
            if not torch.equal(e, g):
                return False, 0, "integers differ"
            continue
        tolerance = 1e-4 if e.dtype in (torch.float32, torch.float64) else 1e-2
        close = close and torch.allclose(e, g, atol=tolerance, rtol=tolerance, equal_nan=True)
        size = e.double().abs().max().item() if e.numel() else 0
        largest = max(largest, (e.double() - g.double()).abs().max().item() / size if size > 0 else 0)
        if not torch.allclose(e, g, atol=1e-2, rtol=1e-2, equal_nan=True):
            return False, largest, "beyond 1e-2"
    return close, largest, ""


@contextlib.contextmanager
def gpu(alone: bool) -> Iterator[None]:
    """Held while this process computes: together with others, or alone."""
    with open(pathlib.Path(os.environ["TORCH_EXTENSIONS_DIR"]).parent / "gpu.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def is_half(tensor: Any) -> bool:
    import torch

    return tensor.dtype in (torch.float16, torch.bfloat16)


def as_near(module: Any, inputs: Any, expected: Any, got: Any) -> bool:
    """Whether the outputs of half types are about as far from those of the model in float32 as eager's are."""
    import torch

    def widened(value: Any) -> Any:
        return value.float() if isinstance(value, torch.Tensor) and is_half(value) else value

    exact = copy.deepcopy(module).float()(*torch.utils._pytree.tree_map(widened, inputs))
    for x, e, g in zip(tensors_of(exact), tensors_of(expected), tensors_of(got)):
        if not is_half(e) or e.shape != x.shape:
            return False
        of_eager, of_ours = (t.double() - x.double() for t in (e, g))
        if not (of_ours.abs().max() <= 2 * of_eager.abs().max() and of_ours.norm() <= 1.5 * of_eager.norm()):
            return False
    return True


def median_ms(call: Any, torch: Any) -> float:
    times = []
    for _ in range(TIMED_CALLS + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[3:])


def module_of(name: str, file: pathlib.Path) -> dict[str, Any]:
    """The names of a file that is executed as a module; a dataclass looks its module up among the others."""
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(file.read_text(), file.name, "exec"), vars(module))
    return vars(module)


def run_plainly(task: dict[str, Any], folder: pathlib.Path, device: str) -> dict[str, Any]:
    import torch

    problem, exported = (module_of(name, folder / task[key]) for name, key in (("problem", "problem_file"), ("exported", "file")))
    modules = []
    for made in (problem["Model"], exported["ModelNew"]):
        torch.manual_seed(SEED)
        init = problem["get_init_inputs"]()
        modules.append((made(**init) if isinstance(init, dict) else made(*init)).to(device))
    result: dict[str, Any] = {"close": True, "largest": 0.0, "problem": ""}
    with torch.no_grad(), gpu(alone=False):
        for call in range(CALLS):
            torch.manual_seed(SEED + call)
            inputs = moved(problem["get_inputs"](), device)
            outputs = []
            for module in modules:  # each has inputs of its own: forward may write to them
                own = torch.utils._pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, inputs)
                torch.manual_seed(SEED)
                outputs.append(module(*own))
            close, largest, problem_here = compare(*outputs)
            halves = [t for t in tensors_of(outputs[0]) if is_half(t)]
            if problem_here == "beyond 1e-2" and halves and as_near(modules[0], inputs, *outputs):
                problem_here = ""
            result["close"], result["largest"] = result["close"] and close, max(result["largest"], largest)
            if problem_here:
                result["problem"] = f"call {call + 1}: {problem_here}"
                return result
    with torch.no_grad(), gpu(alone=True):
        result["eager_ms"], result["exported_ms"] = (median_ms(lambda m=m: m(*inputs), torch) for m in modules)
    return result


def run_evaluator(task: dict[str, Any], folder: pathlib.Path, folder_of_kernelbench: pathlib.Path, device: str) -> dict[str, Any]:
    with gpu(alone=False):
        found = checkout.judge(checkout.evaluator(folder_of_kernelbench), (folder / task["problem_file"]).read_text(),
                               (folder / task["file"]).read_text(), device, os.environ["TORCH_EXTENSIONS_DIR"], trials=20)
    return {"judged": found["verdict"] != "not_judged", "correct": found["verdict"] == "accepted", "ms": found.get("ms", 0),
            "reference_ms": found.get("reference_ms", 0), "metadata": found["why"] or str(found.get("metadata"))[:300]}


def in_one_process(options: argparse.Namespace) -> None:
    """What the process of one file does; its result goes to a file, since the evaluator prints."""
    task = json.loads(options.one)
    result: dict[str, Any] = {}
    try:
        result["plain"] = run_plainly(task, options.exported, options.device)
        if options.kernelbench:
            result["evaluator"] = run_evaluator(task, options.exported, options.kernelbench, options.device)
    except Exception as error:  # noqa: BLE001: said as this file's problem
        result.setdefault("plain", {"problem": f"{type(error).__name__}: {str(error)[:300]}"})
        result.setdefault("evaluator", {"correct": False, "metadata": f"{type(error).__name__}: {str(error)[:300]}"})
    pathlib.Path(options.result).write_text(json.dumps(result))


def accept(task: dict[str, Any], options: argparse.Namespace, scratch: str) -> dict[str, Any]:
    name = task["task"]
    result = pathlib.Path(scratch) / f"{name}.json"
    command = [sys.executable, "-X", "faulthandler", str(pathlib.Path(__file__)), str(options.exported), "--device", options.device, "--one", json.dumps(task),
               "--result", str(result)]
    if options.kernelbench:
        command += ["--kernelbench", str(options.kernelbench)]
    environment = {**os.environ, "TORCH_EXTENSIONS_DIR": f"{scratch}/{name}.build"}
    os.makedirs(environment["TORCH_EXTENSIONS_DIR"])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)
        how = f"ended with {done.returncode}: {done.stderr.strip()[-300:]}"
    except subprocess.TimeoutExpired:
        how = f"did not end within {SECONDS} s"
    found = json.loads(result.read_text()) if result.exists() else {"plain": {"problem": how}, "evaluator": {"correct": False, "metadata": how}}
    return {"task": name, "library_only": task["library_only"], **found}


def line_of(found: dict[str, Any], with_evaluator: bool) -> str:
    plain, evaluator = found["plain"], found.get("evaluator", {})
    words = "WRONG " + plain["problem"] if plain["problem"] else "right" if plain["close"] else "right at 1e-2"
    text = f"{found['task']:44} {words}, {plain.get('largest', 0):.1e}"
    if "exported_ms" in plain:
        text += f", {plain['eager_ms']:.3f} -> {plain['exported_ms']:.3f} ms ({plain['eager_ms'] / plain['exported_ms']:.2f}x)"
    if with_evaluator:
        said = "accepted" if evaluator.get("correct") else "REFUSED" if evaluator.get("judged", True) else "not judged"
        text += "; " + said + ("" if evaluator.get("correct") else " " + str(evaluator.get("metadata")))
    return text + ("; library only" if found["library_only"] else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exported", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kernelbench", type=pathlib.Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        in_one_process(options)
        return 0
    index = json.loads((options.exported / "index.json").read_text())
    tasks = [t for t in index["tasks"] if t.get("file") and (not options.names or any(n in t["task"] for n in options.names))]
    if not tasks:
        print(f"{options.exported} has no exported file of that name", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = []
        for found in pool.map(lambda task: accept(task, options, scratch), tasks):
            results.append(found)
            print(line_of(found, options.kernelbench is not None), flush=True)
    wrong = [r for r in results if r["plain"]["problem"]]
    evaluators = [r.get("evaluator", {}) for r in results] if options.kernelbench else []
    accepted = [e for e in evaluators if e.get("correct")]
    refused = [e for e in evaluators if not e.get("correct") and e.get("judged", True)]
    loose = [r for r in results if not r["plain"]["problem"] and not r["plain"]["close"]]
    print(f"plain harness: {len(results) - len(wrong)} of {len(results)} right over {CALLS} calls, {len(loose)} of them only at 1e-2"
          + (f"; KernelBench's evaluator accepts {len(accepted)}, refuses {len(refused)} and cannot run the problems of "
             f"{len(evaluators) - len(accepted) - len(refused)}" if options.kernelbench else ""))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 1 if wrong or refused else 0


if __name__ == "__main__":
    sys.exit(main())
