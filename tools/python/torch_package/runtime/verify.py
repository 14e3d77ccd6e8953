"""Checks and measures a package again, on this machine: whether its files are those that were exported, what is another
than there, whether each variant is right (against float64, beside the task's own program), and whether it is faster than
the model's own forward, called as a module.

    python -m PACKAGE [--device cpu|cuda:0] [--seconds S] [--no-times] [--json]

Exit codes: 0 all is right and nothing is slower than eager; 1 a variant is wrong or slower, or a file was changed; 3 some
variant cannot run here."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import platform
import random
import re
import time
from typing import Any, Callable

import torch

from . import checks, kernels_cuda
from .module import leaves, optimized_class
from .package import Package, cubin_for
from .program import PackageError, float64_of

_DRAWS = 3
_LEAST_ROUNDS, _MOST_ROUNDS = 12, 4000
WRONG, SLOWER, FASTER, SAME, CANNOT, RIGHT = "wrong", "slower", "faster", "no difference", "cannot run", "right"


def processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "unknown")


def driver() -> str:
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            words = file.readline().split()
        return next((w for w in words if w[:1].isdigit() and "." in w), "unknown")
    except OSError:
        return ""


def here(device: torch.device) -> dict[str, str]:
    """What a measurement depends on."""
    found = {"torch": torch.__version__, "Python": platform.python_version(), "processor": processor(),
             "threads": str(torch.get_num_threads())}
    if device.type == "cuda":
        found.update({"GPU": torch.cuda.get_device_name(device), "driver": driver(), "CUDA": str(torch.version.cuda),
                      "cuDNN": str(torch.backends.cudnn.version())})
    return found


def seed_everything(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)


def on_device(value: Any, device: torch.device) -> Any:
    return torch.utils._pytree.tree_map(lambda v: v.to(device) if isinstance(v, torch.Tensor) else v, value)


def inputs_of(source: Any, seed: int, device: torch.device) -> list[Any]:
    seed_everything(seed)
    given = source.get_inputs()
    return on_device(list(given.values()) if isinstance(given, dict) else list(given), device)


def model_of(source: Any, cls: type, seed: int, device: torch.device) -> torch.nn.Module:
    seed_everything(seed)
    initial = source.get_init_inputs() if hasattr(source, "get_init_inputs") else []
    seed_everything(seed)
    model = cls(**initial) if isinstance(initial, dict) else cls(*initial)
    return model.to(device)


class Pair:
    """A task's model and the module that runs its variant, with the same weights."""

    def __init__(self, package: Package, model: dict[str, Any], case: dict[str, Any], device: torch.device, seed: int):
        self.package, self.device, self.seed = package, device, seed
        self.source = importlib.import_module(f"{package.name}.models.{case['module']}")
        self.dispatcher = package.dispatcher(model["name"])
        self.eager = model_of(self.source, self.source.Model, seed, device)
        self.fast = model_of(self.source, optimized_class(package.name, self.dispatcher, self.source.Model), seed, device)
        self.operator = package.operator(case["task"])
        self.held = checks.held_to(next(p for p in package.index["programs"] if p["task"] == case["task"]))

    def inputs(self, draw: int) -> list[Any]:
        return inputs_of(self.source, self.seed + 1 + draw, self.device)

    def errors(self, draw: int) -> tuple[float, float, str]:
        """Relative errors against float64 of the variant and of the task's own program, and why the module's outputs are
        not close to the model's; "" if they are."""
        case = next(c for c in self.dispatcher.cases if c.operator is self.operator)
        return self.errors_with(self.inputs(draw), case, self.operator)

    def errors_with(self, given: list[Any], case: Any, own_program: Any) -> tuple[float, float, str]:
        """`own_program`: the operator of that size, which has the task's own program for it."""
        forward = type(self.eager).forward
        tensors, why = self.dispatcher.arguments.bound_to(forward).tensors(tuple(given), {})
        if why:
            raise PackageError(f"the model's own inputs are not those of its variant: {why}")
        weights = [self.dispatcher.weight(self.eager, n, self.device).detach() for n in case.weights]
        with torch.no_grad():
            exact = own_program.reference(self.device, as_float64=True).steps(float64_of(tensors), float64_of(weights), [])
            with self.held.eager_flags():
                own = own_program.reference(self.device).steps(tensors, weights, [])
            before = self.operator.calls
            found = leaves(self.fast(*given))
            if self.operator.calls == before:
                raise PackageError(f"the module does not run the variant: {self.package.report()}")
            wanted = leaves(self.eager(*given))
            outputs = self.operator.run(tensors, weights)
        return checks.error_of(outputs, exact), checks.error_of(own, exact), checks.why_different(found, wanted, self.held)


class RangePair(Pair):
    """A task's model and the module that runs the variant of a range of batch sizes."""

    def __init__(self, package: Package, model: dict[str, Any], case: dict[str, Any], device: torch.device, seed: int):
        super().__init__(package, model, case, device, seed)
        self.dispatcher = package.range_dispatcher(model["name"], case["task"])
        self.fast = model_of(self.source, optimized_class(package.name, self.dispatcher, self.source.Model), seed, device)
        self.operator = package.range_operator(case["task"])

    def inputs_at(self, batch: int, draw: int) -> list[Any]:
        """The model's own inputs, as many draws of them as have that many elements."""
        tuned, flatten = self.operator.tuned, torch.utils._pytree.tree_flatten
        draws = [flatten(self.inputs(draw + i)) for i in range(-(-batch // tuned))]
        leaves_ = [torch.cat(items)[:batch].contiguous() if isinstance(items[0], torch.Tensor) and items[0].dim() > 0 and
                   items[0].shape[0] == tuned else items[0] for items in zip(*[d[0] for d in draws])]
        return torch.utils._pytree.tree_unflatten(leaves_, draws[0][1])

    def sizes(self) -> list[int]:
        """To check: the ends, the tuned one, and between them some that nothing divides."""
        o = self.operator
        low, high = -(-o.low // o.multiple), o.high // o.multiple
        inside = [low, low + 1, round(math.sqrt(low * high)) | 1, (low + high) // 2 | 1, high - 1, high]
        return sorted({n * o.multiple for n in inside if low <= n <= high} | self.tuned())

    def tuned(self) -> set[int]:
        o = self.operator
        return {o.tuned} if o.low <= o.tuned <= o.high else set()

    def timed_sizes(self) -> list[int]:
        o = self.operator
        middle = round(math.sqrt(o.low * o.high)) // o.multiple * o.multiple
        ends = [-(-o.low // o.multiple) * o.multiple, o.high // o.multiple * o.multiple]
        return sorted({*ends, *[m for m in [middle] if o.low <= m], *self.tuned()})


def check_range(pair: RangePair, seconds: float, times: bool, result: dict[str, Any]) -> None:
    """At several sizes of the range; a size with a wrong result makes the whole range wrong."""
    o = pair.operator
    result.update(low=o.low, high=o.high, multiple=o.multiple, tuned=o.tuned, sizes=pair.sizes(), times=[])
    problem = o.problem_on(pair.device)
    if problem:
        result.update(status=CANNOT, why=problem)
        return
    case, dtype = pair.dispatcher.ranges[0], getattr(torch, o.outputs[0]["dtype"])
    for batch in pair.sizes():
        error, own, why = pair.errors_with(pair.inputs_at(batch, 0), case, o.at(batch))
        if why or math.isinf(error) or checks.is_worse(error, own, dtype, pair.held):
            result.update(status=WRONG, why=f"for a batch of {batch}: " + (why or f"its error against float64 is {error:.3g}, "
                                                                           f"and eager's {own:.3g}"))
            return
    result.update(status=RIGHT, why="")
    for batch in pair.timed_sizes() if times else []:
        given = pair.inputs_at(batch, 0)
        with torch.no_grad():
            eager, fast = compared_times(pair.device, [lambda i: pair.eager(*given), lambda i: pair.fast(*given)], seconds / 2)
        speedup, low, high = checks.ratio_interval(eager, fast)
        result["times"].append({"batch": batch, "eager_us": sorted(eager)[len(eager) // 2], "speedup": speedup,
                                "module_us": sorted(fast)[len(fast) // 2], "interval": [low, high]})
    slower = [t["batch"] for t in result["times"] if t["interval"][1] < 1]
    if slower:
        result.update(status=SLOWER, why="it is slower than eager for a batch of " + ", ".join(map(str, slower)))


def check(pair: Pair, result: dict[str, Any]) -> None:
    problem = pair.operator.problem_on(pair.device)
    if problem:
        result.update(status=CANNOT, why=problem)
        return
    worst = worst_own = 0.0
    for draw in range(_DRAWS):
        error, own, why = pair.errors(draw)
        worst, worst_own = max(worst, error), max(worst_own, own)
        dtype = getattr(torch, pair.operator.outputs[0]["dtype"])
        if why or math.isinf(error) or checks.is_worse(error, own, dtype, pair.held):
            result.update(status=WRONG, why=why or f"its error against float64 is {error:.3g}, and eager's {own:.3g}")
            break
    else:
        result.update(status=RIGHT, why="")
    result.update(error=worst, eager_error=worst_own)


def timer(device: torch.device) -> Callable[[Callable], float]:
    """Microseconds of one call, with its work on the device."""
    def host(call: Callable) -> float:
        begin = time.perf_counter_ns()
        kept = call()
        end = time.perf_counter_ns()
        del kept
        return (end - begin) / 1e3

    def gpu(call: Callable) -> float:
        torch.cuda.synchronize(device)
        begin = time.perf_counter_ns()
        kept = call()
        torch.cuda.synchronize(device)
        end = time.perf_counter_ns()
        del kept
        return (end - begin) / 1e3

    return gpu if device.type == "cuda" else host


def compared_times(device: torch.device, sides: list[Callable], seconds: float, seed: int = 0) -> list[list[float]]:
    """Times of calls of several sides, alternating in random order: a list of as many rounds for each. A side is called
    with the number of the round, which decides its inputs."""
    clock, drawn = timer(device), random.Random(seed)
    for side in sides:
        for i in range(3):
            side(i)
    samples: list[list[float]] = [[] for _ in sides]
    begin = time.monotonic()
    for i in range(_MOST_ROUNDS):
        order = list(range(len(sides)))
        drawn.shuffle(order)
        for k in order:
            samples[k].append(clock(lambda k=k: sides[k](i)))
        if i + 1 >= _LEAST_ROUNDS and time.monotonic() - begin >= seconds:
            break
    return samples


def measure(pair: Pair, seconds: float, result: dict[str, Any]) -> None:
    draws = [pair.inputs(i) for i in range(_DRAWS)]
    with torch.no_grad():
        eager, fast = compared_times(pair.device, [lambda i: pair.eager(*draws[i % _DRAWS]),
                                                   lambda i: pair.fast(*draws[i % _DRAWS])], seconds)
    speedup, low, high = checks.ratio_interval(eager, fast)
    result.update(eager_us=sorted(eager)[len(eager) // 2], module_us=sorted(fast)[len(fast) // 2], speedup=speedup,
                  interval=[low, high], rounds=len(eager))
    result["status"] = FASTER if low > 1 else SLOWER if high < 1 else SAME


def searched_threads(package: Package) -> int:
    """With how many threads variants for the processor were timed; 0 where nothing says so."""
    found = [re.search(r"(\d+) timed threads", p["environment"]["details"]) for p in package.index["programs"]
             if p["device_type"] == "cpu"]
    return max([int(m.group(1)) for m in found if m], default=0)


def kernels_on(entry: dict[str, Any], device: torch.device) -> str:
    """For which architecture the kernels are that run there, and what else the package has; "" without kernels."""
    kernels = entry.get("kernels")
    if kernels is None or entry["device_type"] == "cpu" or device.type == "cpu" or not torch.cuda.is_available():
        others = ", ".join(kernels["others"]) if kernels else ""
        return "" if kernels is None else kernels["architecture"] + (f" (measured), {others}" if others else "")
    here = kernels_cuda.architecture_of(device)
    how = "measured" if here == kernels["architecture"] else "compiled at the export" if cubin_for(kernels, here) else (
        "compiled here once")
    return f"{here} ({how})"


def usable_device(package: Package, wanted: str) -> torch.device:
    if wanted:
        return torch.device(wanted if wanted != "cuda" else "cuda:0")
    types = {c["device_type"] for m in package.index["models"] for c in m["cases"]}
    return torch.device("cuda:0" if "cuda" in types and torch.cuda.is_available() else "cpu")


def differences(package: Package, device: torch.device) -> list[str]:
    """What is another here than where the package was exported and checked."""
    before, now = package.index["made_on"], here(device)
    return [f"{key} is {now[key]}, and was {before[key]} at the export" for key in now
            if before.get(key) not in (None, now[key])]


def verify(package: Package, wanted: str = "", seconds: float = 1.0, times: bool = True, threads: int = 0,
           seed: int = 0) -> dict[str, Any]:
    """`threads`: of PyTorch, where nothing runs on a GPU; 0: as many as the search timed with."""
    device = usable_device(package, wanted)
    if device.type == "cpu" and (threads or searched_threads(package)):
        torch.set_num_threads(threads or searched_threads(package))
    changed = package.changed_files()
    cases = []
    for model in package.index["models"]:
        for case in model["cases"]:
            entry = next(p for p in package.index["programs"] if p["task"] == case["task"])
            result: dict[str, Any] = {"task": case["task"], "model": model["name"], "device": str(device),
                                      "variant": entry["variant"], "exported_speedup": entry.get("module_speedup"),
                                      "searched_speedup": entry.get("speedup"), "precision": entry["precision"],
                                      "kernels": kernels_on(entry, device)}
            if case["device_type"] != device.type or device.type == "cuda" and not torch.cuda.is_available():
                result.update(status=CANNOT, why=f"it was made for {case['device_type']}, and this is {device.type}" if
                              case["device_type"] != device.type else "PyTorch finds no GPU here")
            else:
                try:
                    pair = Pair(package, model, case, device, seed)
                    check(pair, result)
                    if times and result["status"] == RIGHT:
                        measure(pair, seconds, result)
                except Exception as e:  # whatever a changed file or another PyTorch leads to is the result
                    result.update(status=WRONG if not isinstance(e, PackageError) else CANNOT,
                                  why=f"{type(e).__name__}: {e}")
            cases.append(result)
    ranges = verified_ranges(package, device, seconds, times, seed)
    bad = changed or any(c["status"] in (WRONG, SLOWER) for c in [*cases, *ranges])
    code = 1 if bad else 3 if any(c["status"] == CANNOT for c in [*cases, *ranges]) else 0
    return {"package": package.name, "version": package.index["version"], "device": str(device), "here": here(device),
            "changed_files": changed, "differences": differences(package, device), "cases": cases, "ranges": ranges,
            "exit_code": code}


def verified_ranges(package: Package, device: torch.device, seconds: float, times: bool, seed: int) -> list[dict[str, Any]]:
    found = []
    for model in package.index["models"]:
        for task in model.get("ranges", []):
            case = next(c for c in model["cases"] if c["task"] == task)
            result: dict[str, Any] = {"task": task, "model": model["name"], "device": str(device)}
            if case["device_type"] != device.type or device.type == "cuda" and not torch.cuda.is_available():
                result.update(status=CANNOT, why=f"it was made for {case['device_type']}")
            else:
                try:
                    check_range(RangePair(package, model, case, device, seed), seconds, times, result)
                except Exception as e:  # as for the cases
                    result.update(status=WRONG if not isinstance(e, PackageError) else CANNOT,
                                  why=f"{type(e).__name__}: {e}")
            found.append(result)
    return found


def range_text(r: dict[str, Any]) -> str:
    line = f"{r['task']}: {r['status']}"
    if "low" in r:
        of = f", multiples of {r['multiple']}" if r["multiple"] > 1 else ""
        line = f"{r['task']} for batches of {r['low']}..{r['high']}{of}: {r['status']} at {', '.join(map(str, r['sizes']))}"
    for t in r.get("times", []):
        line += (f"; of {t['batch']} {t['speedup']:.2f}x [{t['interval'][0]:.2f}, {t['interval'][1]:.2f}], "
                 f"{t['eager_us']:.0f} us to {t['module_us']:.0f} us")
    return line + (f"; {r['why']}" if r.get("why") else "")


def text_of(found: dict[str, Any]) -> str:
    of = found["here"]
    lines = [f"{found['package']} {found['version']} on {found['device']} ({of.get('GPU') or of['processor']}, "
             f"{of['threads']} threads, torch {of['torch']})"]
    lines += [f"CHANGED: {c}" for c in found["changed_files"]] + [f"differs: {d}" for d in found["differences"]]
    for c in found["cases"]:
        line = f"{c['task']}: {c['status']}"
        if "speedup" in c:
            was = c.get("exported_speedup")
            line += (f", {c['speedup']:.2f}x [{c['interval'][0]:.2f}, {c['interval'][1]:.2f}] over eager, "
                     f"{c['eager_us']:.0f} us to {c['module_us']:.0f} us" + (f"; at the export {was:.2f}x" if was else ""))
        if "error" in c:
            line += f"; error {c['error']:.2g}, eager's {c['eager_error']:.2g}"
        line += f"; held to precision {c['precision']}" if c["precision"] != "eager" else ""
        line += f"; kernels for {c['kernels']}" if c["kernels"] else ""
        lines.append(line + (f"; {c['why']}" if c.get("why") else ""))
    lines += [range_text(r) for r in found["ranges"]]
    return "\n".join(lines)


def main(package: Package, words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {package.name}", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--device", default="")
    parser.add_argument("--seconds", type=float, default=1.0, help="for the times of each variant")
    parser.add_argument("--threads", type=int, default=0, help="on the processor; default: as the search timed with")
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args(words)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # what a model prints
        found = verify(package, o.device, o.seconds, not o.no_times, o.threads)
        print(json.dumps(found, indent=2) if o.json else text_of(found), file=answers)
    return found["exit_code"]

