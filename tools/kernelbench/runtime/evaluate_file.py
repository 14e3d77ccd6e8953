#!/usr/bin/env python3
"""Evaluates one exported file as KernelBench does (eval_kernel_against_ref of its eval.py), and a little further.

    evaluate_file.py FILE --reference PROBLEM --device cuda:0 --result RESULT.json
    evaluate_file.py FILE --reference PROBLEM --device cuda:0 --build    only build it

The file is exec'd in a namespace that has the problem's names, as there; Model and ModelNew are made after the same seed, in training mode; five draws of
get_inputs are compared with allclose at 1e-4 (float32) or 1e-2 (half types). KernelBench casts all inputs to float32.
Beyond that: the containers that outputs are in; five calls of fresh modules in a row, whose outputs are compared at the end, so that state and outputs that
a later call overwrites show; the weights of the reference, changed, through state_dict; and how far eager differs from
itself under other algorithms (`noise`). Where that is more than the tolerance the task is ill-conditioned, and the
exported module may differ as much.
Times are of a call and its synchronisation (measuring.py, as `cudal1 baseline` takes them), and on a GPU also by
KernelBench's method: CUDA events round each of 100 calls after writing 256 MB.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import fcntl
import gc
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import types
from typing import Any, Callable, Iterator

if "--device" in sys.argv[:-1]:
    # Those of timed calls are left to them from the beginning: the threads that PyTorch starts are counted and placed by
    # what a process may use when it is imported. On a CPU timed calls are made by these threads, too.
    own = {int(word) for option, value in zip(sys.argv, sys.argv[1:]) if option in ("--cores", "--reserved-cores")
           for word in value.split(",") if word}
    if own and sys.argv[sys.argv.index("--device") + 1] != "cpu":
        with contextlib.suppress(OSError):  # a container that allows fewer
            os.sched_setaffinity(0, os.sched_getaffinity(0) - own)

import torch  # noqa: E402

HALF_TYPES = (torch.float16, torch.bfloat16)
# Noise is the largest difference of one draw, and a file's that of five and more.
NOISE_FACTOR = 2
SEED = 42
DRAWS = 5
CHECKS_AT_ONCE = 16  # about: each may keep a share of the host's memory
PERFORMANCE_TRIALS = 100
FLUSHED_BYTES = 256 << 20
COMPARED_AT_ONCE = 1 << 26  # elements
# How much less accurate float64 may be in another order of the batch, for the order not to matter to the definition.
SAME_IN_FLOAT64 = 1e-6


def set_seed(seed: int) -> None:
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed(seed)


def tree_map(function: Callable, value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, dict)):
        changed = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(changed, field.name, tree_map(function, getattr(value, field.name)))
        return changed
    if type(value) in (list, tuple):
        return type(value)(tree_map(function, item) for item in value)
    if type(value) is dict:
        return {key: tree_map(function, item) for key, item in value.items()}
    return torch.utils._pytree.tree_map(lambda v: function(v) if isinstance(v, torch.Tensor) else v, value)


def leaves(value: Any) -> list[torch.Tensor]:
    items = items_of(value)
    if items is None:
        return [value] if isinstance(value, torch.Tensor) else []
    return [t for _, item in items for t in leaves(item)]


def items_of(value: Any) -> list[tuple[str, Any]] | None:
    """What a container holds, with names or nothing before each; None of anything else."""
    if isinstance(value, dict):
        return [(f"{key!r}: ", item) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [("", item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f"{f.name}=", getattr(value, f.name)) for f in dataclasses.fields(value)]
    return None


def form_of(value: Any) -> str:
    """A result without its numbers: "dict('y': Tensor, 'rest': list(Tensor, None))"."""
    items = items_of(value)
    if items is None:
        return "Tensor" if isinstance(value, torch.Tensor) else repr(value)
    # torch.max and its like give a tuple of their own kind; a task has a tuple.
    kind = "tuple" if type(value).__module__ == "torch.return_types" else type(value).__name__
    return f"{kind}({', '.join(name + form_of(item) for name, item in items)})"


def free_host_bytes() -> int:
    """What the system says may be had; 0 where it does not."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 0


def tolerance_of(t: torch.Tensor) -> float:
    return 1e-2 if t.dtype in HALF_TYPES else 1e-4


def compare(wanted: list[torch.Tensor], got: list[torch.Tensor]) -> tuple[float, float]:
    """The largest absolute difference, and the largest one over what allclose permits (at most 1: close)."""
    if [t.shape for t in wanted] != [t.shape for t in got]:
        return math.inf, math.inf
    difference = excess = 0.0
    for whole_a, whole_b in zip(wanted, got):
        tolerance = tolerance_of(whole_a)
        # A part at a time: float64 of a whole output and what is computed with it may be more than the device holds.
        for a, b in zip(whole_a.reshape(-1).split(COMPARED_AT_ONCE), whole_b.reshape(-1).split(COMPARED_AT_ONCE)):
            if not a.numel():
                continue
            a, b = a.double(), b.double()
            off = torch.where(a == b, 0.0, (a - b).abs())
            difference = max(difference, off.max().nan_to_num(math.inf).item())
            excess = max(excess, (off / (tolerance + tolerance * b.abs())).nan_to_num(math.inf).max().item())
    return difference, excess


class Sides:
    """The problem's Model and the file's ModelNew, as KernelBench makes them."""

    def __init__(self, reference: str, exported: str, device: torch.device, cast: bool, turns: Turns):
        self.device, self.cast, self.turns = device, cast, turns
        self.other_form = ""  # how what the file returns differs from what the problem does
        self.kept: dict[int, list[Any]] = {}  # inputs by seed, as get_inputs gave them: it may take seconds
        context: dict[str, Any] = {}
        set_seed(SEED)  # a source may make its module at once
        exec(compile(reference, "<string>", "exec"), context)
        self.Model, self.get_inputs = context["Model"], context["get_inputs"]
        set_seed(SEED)
        self.initial = context["get_init_inputs"]() if "get_init_inputs" in context else []
        with turns.step():
            self.initial = tree_map(self.placed, self.initial)
        self.get_init_inputs = context.get("get_init_inputs", list)
        # A copy: KernelBench makes its one Model before the file's Model takes the name, which super(Model, self) looks up.
        context = dict(context)
        set_seed(SEED)
        exec(compile(exported, "<string>", "exec"), context)
        self.ModelNew = context["ModelNew"]

    def placed(self, t: torch.Tensor) -> torch.Tensor:
        return t.to(self.device, torch.float32 if self.cast else t.dtype, copy=True)

    def make(self, cls: Any, seed: int = SEED) -> torch.nn.Module:
        set_seed(seed)
        model = cls(**self.initial) if isinstance(self.initial, dict) else cls(*self.initial)
        with self.turns.step():
            return model.to(self.device, dtype=torch.float32) if self.cast else model.to(self.device)

    def inputs_of(self, seed: int) -> list[Any]:
        """What get_inputs gives after that seed; not to be written to."""
        if seed in self.kept:
            return self.kept[seed]
        set_seed(seed)
        inputs = list(self.get_inputs())
        size = sum(t.numel() * t.element_size() for t in leaves(inputs))
        if size * DRAWS * CHECKS_AT_ONCE <= free_host_bytes():
            self.kept[seed] = inputs
        return inputs

    def place(self, made: list[Any], seed: int) -> list[Any]:
        """Inputs on the device, new ones each time; random numbers of a forward begin after the seed."""
        with self.turns.step():
            inputs = tree_map(self.placed, made)
            set_seed(seed)
        return inputs

    def draw(self, seed: int) -> list[Any]:
        return self.place(self.inputs_of(seed), seed)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def draw_seeds() -> list[int]:
    torch.manual_seed(SEED)
    return [torch.randint(0, 2**32 - 1, (1,)).item() for _ in range(DRAWS)]


def compare_draws(sides: Sides, seeds: list[int]) -> list[tuple[float, float]]:
    reference, exported = sides.make(sides.Model), sides.make(sides.ModelNew)
    found = []
    for seed in seeds:
        inputs = sides.draw(seed)
        with sides.turns.step():
            others = tree_map(torch.clone, inputs)  # KernelBench gives both the same, into which a forward may write
            wanted, got = reference(*inputs), exported(*others)
            synchronize(sides.device)
            if form_of(wanted) != form_of(got):
                sides.other_form = f"it returns {form_of(got)}, and the problem {form_of(wanted)}"
            found.append(compare(leaves(wanted), leaves(got)))
    return found


def compare_row(sides: Sides, seeds: list[int]) -> tuple[float, float]:
    """Calls of fresh modules one after the other; all outputs are kept as they were returned until the end, and so are
    the inputs, into which a forward may write. The last call is one of deep copies, which go on from where these are."""
    reference, exported = sides.make(sides.Model), sides.make(sides.ModelNew)
    inputs = [sides.draw(seed) for seed in seeds]
    with sides.turns.step():
        copies = [tree_map(torch.clone, i) for i in inputs]
        wanted = [[t.clone() for t in leaves(reference(*i))] for i in copies[:-1]]
        got = [leaves(exported(*i)) for i in inputs[:-1]]
        wanted.append(leaves(copy.deepcopy(reference)(*copies[-1])))
        got.append(leaves(copy.deepcopy(exported)(*inputs[-1])))
        synchronize(sides.device)
        return compare([t for row in wanted for t in row] + leaves(copies),
                       [t for row in got for t in row] + leaves(inputs))


def constants(sides: Sides) -> set[str]:
    """Buffers that have the same values for every seed, such as a table of positions: they belong to the problem's
    definition, and the import computes with them. Statistics, which training changes, do not."""
    others = dict(sides.make(sides.Model, SEED + 1).named_buffers())
    buffers = sides.make(sides.Model).named_buffers()
    with sides.turns.step():
        return {name for name, t in buffers
                if not name.endswith(("running_mean", "running_var")) and torch.equal(t, others[name])}


def compare_other_weights(sides: Sides, seed: int) -> tuple[float, float]:
    """After a call, so that what was made of the old weights would show."""
    fixed = constants(sides)
    reference, exported = sides.make(sides.Model), sides.make(sides.ModelNew)
    made = sides.inputs_of(seed)
    with sides.turns.step():
        for model in (reference, exported):
            model(*sides.place(made, seed))
        for name, tensor in reference.state_dict().items():
            if tensor.is_floating_point() and name not in fixed:
                tensor.mul_(1.25)
        exported.load_state_dict(reference.state_dict())
        inputs = sides.place(made, seed)
        wanted = leaves(reference(*tree_map(torch.clone, inputs)))
        return compare(wanted, leaves(exported(*inputs)))


# ---- eager against itself -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def without_tf32() -> Iterator[None]:
    matmul, cudnn = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, cudnn


def other_algorithms(device: torch.device) -> dict[str, Any]:
    if device.type == "cpu":
        return {"again": contextlib.nullcontext(), "mkldnn off": torch.backends.mkldnn.flags(enabled=False),
                "one thread": one_thread()}
    flags = torch.backends.cudnn.flags
    allow = torch.backends.cudnn.allow_tf32
    return {"again": contextlib.nullcontext(),
            "cudnn.benchmark": flags(enabled=True, benchmark=True, allow_tf32=allow),
            "cudnn.deterministic": flags(enabled=True, deterministic=True, allow_tf32=allow),
            "TF32 off": without_tf32()}


def in_dtype(model: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """The model with its floating tensors in dtype: also those that it keeps as plain members, such as an initial state."""
    model = model.to(dtype)
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                vars(module)[name] = value.to(dtype)
    return model


def reversed_batch(sides: Sides, model: torch.nn.Module, seed: int, dtype: torch.dtype | None = None) -> tuple:
    """Outputs of a draw, and of it in the reverse order of the batch, put back. Empty where there is no batch."""
    def convert(t: torch.Tensor) -> torch.Tensor:
        return t.to(dtype) if dtype is not None and t.is_floating_point() else t

    model = copy.deepcopy(model)
    model = model if dtype is None else in_dtype(model, dtype)
    inputs = tree_map(convert, sides.draw(seed))
    sizes = {t.shape[0] if t.dim() else 0 for t in leaves(inputs)}
    if len(sizes) != 1 or min(sizes) < 2:
        return ()
    plain = leaves(copy.deepcopy(model)(*tree_map(torch.clone, inputs)))
    if {t.shape[0] if t.dim() else 0 for t in plain} != sizes:
        return ()
    set_seed(seed)
    return plain, [t.flip(0) for t in leaves(model(*tree_map(lambda t: t.flip(0), inputs)))]


def noise_of_batch_order(sides: Sides, model: torch.nn.Module, seed: int) -> tuple[float, float] | None:
    pair = reversed_batch(sides, model, seed)
    if not pair:
        return None
    found = compare(*pair)
    if found[1] <= 1:
        return found
    # Beyond the tolerance: of rounding only where the order means nothing, which float64 shows.
    try:
        exact = reversed_batch(sides, model, seed, torch.float64)
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError:  # its own source makes tensors of float32
        return None
    scale = max(1.0, max(t.abs().max().item() for t in exact[0]))
    return found if compare(*exact)[0] <= SAME_IN_FLOAT64 * scale else None


def in_float32(sides: Sides, model: torch.nn.Module, seed: int, usual: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """What the model gives where it rounds only its outputs to half types. None where it computes in none, or only so."""
    if not any(t.dtype in HALF_TYPES for t in usual):
        return None
    wide = copy.deepcopy(model).float()
    inputs = tree_map(lambda t: t.float() if t.dtype in HALF_TYPES else t.clone(), sides.draw(seed))
    set_seed(seed)
    try:
        outputs = leaves(wide(*inputs))
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError:  # a cast to a half type in its own source
        return None
    return [t.to(u.dtype) for t, u in zip(outputs, usual)]


def eager_noise(sides: Sides, seed: int) -> dict[str, tuple[float, float]]:
    """How far eager is from itself, by what was changed."""
    model = sides.make(sides.Model)
    inputs = sides.draw(seed)

    def call() -> list[torch.Tensor]:
        fresh, given = copy.deepcopy(model), tree_map(torch.clone, inputs)
        set_seed(seed)
        return leaves(fresh(*given))

    with sides.turns.step():
        usual = call()
    found: dict[str, tuple[float, float]] = {}
    for name, algorithm in other_algorithms(sides.device).items():
        with sides.turns.step(), algorithm:
            found[name] = compare(usual, call())
    with sides.turns.step():
        wide = in_float32(sides, model, seed, usual)
        if wide is not None:
            found["float32"] = compare(usual, wide)
    with sides.turns.step():
        order = noise_of_batch_order(sides, model, seed)
        if order is not None:
            found["reverse order of the batch"] = order
    return found


# ---- times ----------------------------------------------------------------------------------------------------------


def timed_sides(sides: Sides) -> list[Any]:
    """Eager and the file, over the same rotation of inputs on the device. To make them takes longer than to time them."""
    import pytorch_calls

    seeds = iter(sides.kept)

    def get_inputs() -> list[Any]:
        seed = next(seeds, None)
        made = list(sides.get_inputs()) if seed is None else sides.inputs_of(seed)
        with sides.turns.step():
            return tree_map(sides.placed, made)

    def model(*arguments: Any, **named: Any) -> torch.nn.Module:
        made = sides.Model(*arguments, **named)
        with sides.turns.step():
            return made.to(sides.device)

    module = types.SimpleNamespace(__name__="problem", Model=model, get_inputs=get_inputs,
                                   get_init_inputs=sides.get_init_inputs)
    pytorch_calls.load_torch()
    reference = pytorch_calls.Subject(module, SEED, sides.device)
    exported = copy.copy(reference)
    exported.model = sides.make(sides.ModelNew)
    return [pytorch_calls.Calls("eager", reference), pytorch_calls.Calls("exported", exported)]


def call_times(both: list[Any], device: torch.device, o: argparse.Namespace, turns: Turns) -> dict[str, float]:
    """The medians of both sides, their ratio, and how fast the host was. To be called while alone."""
    import host_pace
    import measuring
    import pytorch_calls

    clock = pytorch_calls.Clock(device, 0)
    for side in both:
        side.prepare()
    pace = host_pace.Pace(device, o.pace_us or turns.known_pace_us())
    for side in both:
        measuring.measure(clock, pace, side, {"seconds": o.seconds, "least_samples": 10, "cores": o.cores})
    turns.keep_pace_us(pace.best_us())
    eager_us, exported_us = (statistics.median(side.call_us) for side in both)
    result = {"eager_us": eager_us, "exported_us": exported_us, "speedup": eager_us / exported_us,
              "pace_us": both[0].pace_us}
    if all(side.device_us for side in both):
        eager_us, exported_us = (statistics.median(side.device_us) for side in both)
        result.update(eager_device_us=eager_us, exported_device_us=exported_us)
    return result


def event_times_ms(model: torch.nn.Module, inputs: list, device: torch.device) -> list[float]:
    """As time_execution_with_cuda_event of KernelBench's timing.py."""
    for _ in range(3):
        model(*inputs)
        torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    times = []
    for _ in range(PERFORMANCE_TRIALS + 1):
        torch.cuda.synchronize(device)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device=device).fill_(42)
        begin.record()
        model(*inputs)
        end.record()
        torch.cuda.synchronize(device)
        times.append(begin.elapsed_time(end))
    return times[1:]


def statistics_of(times_ms: list[float], device: torch.device) -> dict[str, Any]:
    def rounded(x: float) -> float:
        return float(f"{x:.3g}")

    return {"mean": rounded(statistics.fmean(times_ms)), "std": rounded(statistics.pstdev(times_ms)),
            "min": rounded(min(times_ms)), "max": rounded(max(times_ms)), "num_trials": len(times_ms),
            "hardware": torch.cuda.get_device_name(device), "device": str(device)}


def kernelbench_times(both: list[Any], device: torch.device) -> dict[str, Any]:
    reference, exported = (statistics_of(event_times_ms(side.subject.model, side.subject.draws[0], device), device)
                           for side in both)
    return {"runtime_stats": exported, "ref_runtime_stats": reference}


# ---- the verdict ----------------------------------------------------------------------------------------------------


def sides_of(reference: str, exported: str, device: torch.device, cast: bool,
             turns: Turns) -> tuple[Sides, list[str]]:
    """With inputs cast to float32, as KernelBench does, where eager takes them so."""
    sides = Sides(reference, exported, device, cast, turns)
    first = draw_seeds()[0]
    if not cast or all(t.dtype == torch.float32 for t in leaves(sides.inputs_of(first))):
        return sides, []
    made = sides.inputs_of(first)
    try:
        model = sides.make(sides.Model)
        with turns.step():
            model(*sides.place(made, first))
        return sides, []
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as problem:  # noqa: BLE001: whatever the model does
        said = str(problem).strip().split("\n")[0][:200]
        return Sides(reference, exported, device, False, turns), [
            f"eager itself fails with its inputs cast to float32, as KernelBench casts them ({said}): its evaluator "
            "cannot score this problem, and the inputs were left as they are"]


def judge(result: dict[str, Any]) -> str:
    """Why the file is wrong, or nothing. Where eager differs from itself by more than is allowed, so may the file."""
    allowed = result["tolerance_factor"]
    for name, what in (("excess", f"in {DRAWS - result['passed_draws']} of {DRAWS} draws"),
                       ("row_excess", f"within {DRAWS} calls in a row"),
                       ("other_weights_excess", "with other weights")):
        if result[name] > allowed:
            return (f"its output differs from eager's {what}: {result[name]:.3g} times the tolerance"
                    + (f" (where eager is noisy, {allowed:.3g} times is allowed)" if allowed > 1 else ""))
    return ""


def evaluate(sides: Sides, notes: list[str], o: argparse.Namespace) -> dict[str, Any]:
    seeds = draw_seeds()
    draws = compare_draws(sides, seeds)
    row, weights = compare_row(sides, seeds), compare_other_weights(sides, seeds[0])
    noise = eager_noise(sides, seeds[0])
    result: dict[str, Any] = {
        "device": str(sides.device), "torch": torch.__version__, "draws": DRAWS,
        "hardware": torch.cuda.get_device_name(sides.device) if sides.device.type == "cuda" else "cpu",
        "passed_draws": sum(excess <= 1 for _, excess in draws),
        "difference": max(d for d, _ in draws), "excess": max(e for _, e in draws),
        "row_excess": row[1], "other_weights_excess": weights[1],
        "noise": [{"algorithm": name, "difference": d, "excess": e} for name, (d, e) in noise.items()],
        "ill_conditioned": [name for name, (_, e) in noise.items() if e > 1],
        "tolerance_factor": max([1.0, *(NOISE_FACTOR * e for _, e in noise.values() if e > 1)]),
    }
    if not math.isfinite(result["tolerance_factor"]):  # eager's own NaN: nothing can be compared
        result["tolerance_factor"] = 1.0
    result["strict"] = max(result["excess"], result["row_excess"]) <= 1
    result["problem"] = judge(result) or sides.other_form
    probe = sides.make(sides.ModelNew)
    with sides.turns.step():
        single = isinstance(probe(*sides.draw(seeds[0])), torch.Tensor)
    result["notes"] = notes + probe.kernel_notes() + ([] if single else ["KernelBench takes one output only"])
    return result


def finite(value: Any) -> Any:
    """JSON has no infinity: the largest number stands for it."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    return value if not isinstance(value, float) or math.isfinite(value) else sys.float_info.max


def missing_for(device: torch.device) -> str:
    """What such files need on this machine and is not there; empty: nothing."""
    from torch.utils import cpp_extension

    if shutil.which("ninja") is None:
        return "there is no ninja on the PATH: pip install ninja, or apt-get install ninja-build"
    if shutil.which(cpp_extension.get_cxx_compiler()) is None:
        return f"there is no C++ compiler {cpp_extension.get_cxx_compiler()} on the PATH: install one, or set CXX"
    if device.type != "cuda":
        return ""
    if not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count():
        return f"PyTorch finds no {device} here: run this where that GPU is"
    if cpp_extension.CUDA_HOME is None or not os.access(os.path.join(cpp_extension.CUDA_HOME, "bin", "nvcc"), os.X_OK):
        return "there is no nvcc: install the CUDA toolkit that PyTorch was built with, and set CUDA_HOME"
    ones = torch.ones(64, 64, device=device)
    return "" if (ones @ ones).sum().item() == 64**3 else f"{device} does not compute a product of ones"


def surroundings(device: torch.device) -> str:
    """What a check's result depends on beside the files: a line each."""
    from torch.utils import cpp_extension

    compilers = [cpp_extension.get_cxx_compiler()]
    hardware = "cpu"
    if device.type == "cuda":
        hardware = torch.cuda.get_device_name(device)
        compilers.append(os.path.join(cpp_extension.CUDA_HOME, "bin", "nvcc"))
    versions = [subprocess.run([c, "--version"], capture_output=True, text=True, check=True).stdout for c in compilers]
    return "\n".join([torch.__version__, hardware, *versions])


class Turns:
    """When this process uses the device: a step at a time beside other checks, or alone, to be timed. Without a path, at
    once. SIGALRM ends it once a check has taken `limit_s`, without its waiting. Who waits to be alone comes before those
    that begin."""

    def __init__(self, path: pathlib.Path | None = None, limit_s: float = 1e6):
        self.path, self.left_s = path, limit_s
        self.in_step = False

    def lock(self, name: str, how: int) -> Any:
        """Of a file that all checks on the device have, until the end of the with statement."""
        file = open(f"{self.path}.{name}", "ab")  # closing it unlocks
        left_s = signal.setitimer(signal.ITIMER_REAL, 0)[0]
        fcntl.flock(file, how)
        signal.setitimer(signal.ITIMER_REAL, left_s)
        return file

    @contextlib.contextmanager
    def held(self, name: str, alone: bool) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            if self.path:
                with contextlib.ExitStack() as begin:
                    (held if alone else begin).enter_context(
                        self.lock(name + ".next", fcntl.LOCK_SH if alone else fcntl.LOCK_EX))
                    held.enter_context(self.lock(name, fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
            yield

    @contextlib.contextmanager
    def step(self, alone: bool = False) -> Iterator[None]:
        """Its work on the device has ended when it ends. A step within another is part of it."""
        if self.in_step:
            yield
            return
        with self.held("step", alone):
            self.in_step = True
            try:
                yield
                if torch.cuda.is_initialized():
                    torch.cuda.synchronize()
            finally:
                self.in_step = False

    @contextlib.contextmanager
    def whole(self, alone: bool = False) -> Iterator[None]:
        """Around all of a check. Alone: when no other has memory of the device, and until none may have."""
        with self.held("whole", alone):
            signal.setitimer(signal.ITIMER_REAL, self.left_s)
            try:
                yield
            finally:
                self.left_s = signal.setitimer(signal.ITIMER_REAL, 0)[0]

    def known_pace_us(self) -> float:
        """Of the host at its best, as checks before this one have found it; 0: none has. To be asked while alone."""
        with contextlib.suppress(OSError, ValueError):
            return float(pathlib.Path(f"{self.path}.pace").read_text(encoding="utf-8")) if self.path else 0.0
        return 0.0

    def keep_pace_us(self, pace_us: float) -> None:
        if self.path and pace_us > 0:
            known = self.known_pace_us()
            pathlib.Path(f"{self.path}.pace").write_text(str(min(pace_us, known or pace_us)), encoding="utf-8")


def give_memory_back(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def checked(problem: str, exported: str, device: torch.device, o: argparse.Namespace, turns: Turns) -> dict[str, Any]:
    """The result, with times where the file is right."""
    import measuring

    sides, notes = sides_of(problem, exported, device, o.cast, turns)
    result = evaluate(sides, notes, o)
    if result["problem"] or o.no_time:
        return result
    with turns.step():
        give_memory_back(device)  # so that what is timed does not lie in pieces of memory that the checks have left
    both = timed_sides(sides)
    sides.kept.clear()
    before = os.sched_getaffinity(0)
    with turns.step(alone=True):
        try:
            if o.cores:
                measuring.use_cores(o.cores)
            result.update(call_times(both, device, o, turns))
            if device.type == "cuda":
                result.update(kernelbench_times(both, device))
        finally:
            measuring.use_cores(before)
    return result


def checked_where_there_is_memory(problem: str, exported: str, device: torch.device, o: argparse.Namespace,
                                  turns: Turns, alone: bool = False) -> dict[str, Any]:
    """Beside other checks, or where the device lacks memory for that, when none of them has any."""
    with turns.whole(alone):
        try:
            return checked(problem, exported, device, o, turns)
        except torch.cuda.OutOfMemoryError:
            if alone:
                raise
        finally:
            with turns.step():
                give_memory_back(device)
    return checked_where_there_is_memory(problem, exported, device, o, turns, alone=True)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path, nargs="?")
    parser.add_argument("--reference", type=pathlib.Path, help="the problem's own file")
    parser.add_argument("--probe", action="store_true", help="only whether this machine can build and run such files")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cast", action="store_true", help="all inputs to float32, as KernelBench does")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing a side")
    parser.add_argument("--pace-us", type=float, default=0.0)
    parser.add_argument("--cores", type=lambda text: [int(word) for word in text.split(",") if word], default=[],
                        help="those of timed calls; all else runs on the others")
    parser.add_argument("--reserved-cores", default="", help="those of timed calls on all devices, if on several")
    parser.add_argument("--no-time", action="store_true")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--lock", type=pathlib.Path, help="a path that all checks on the device have, for their locks")
    parser.add_argument("--limit", type=float, default=1e6, help="seconds that it may compute")
    parser.add_argument("--result", type=pathlib.Path)
    return parser.parse_args()


def main() -> int:
    o = options()
    if o.probe:
        missing = missing_for(torch.device(o.device))
        print(missing)
        if o.result and not missing:
            o.result.write_text(surroundings(torch.device(o.device)), encoding="utf-8")
        return 1 if missing else 0
    exported = o.file.read_text(encoding="utf-8")
    if o.build:
        exec(compile(exported, "<string>", "exec"), {})
        return 0
    device = torch.device(o.device)
    if device.type == "cuda":
        device = torch.device("cuda", device.index or 0)
        torch.cuda.set_device(device)
    turns = Turns(o.lock, o.limit)
    problem = o.reference.read_text(encoding="utf-8")
    with torch.no_grad():
        result = checked_where_there_is_memory(problem, exported, device, o, turns)
    text = json.dumps(finite(result))
    if o.result:
        o.result.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
