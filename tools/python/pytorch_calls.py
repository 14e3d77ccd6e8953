"""How PyTorch's calls are made and timed one by one: eager, compiled, captured.

A Subject is a model with a rotation of its inputs, the classes of CALLS are the ways to call it, and a Clock times single
calls. measuring.py takes as many as are needed, when the host is at its best (host_pace.py). `cudal1 baseline` measures
with these three (baseline.py), and `cudal1 export --format kernelbench` copies them for check.py, which times with them
too, so that eager's times are comparable.

Call load_torch before anything else: importing this file does not import torch.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import importlib.util
import math
import os
import queue
import random
import statistics
import sys
import threading
import time
import types
from typing import Any, Callable

MOST_DRAWS = 64
DRAWING_S = 3.0  # after this time only the least number of draws is made
LONGEST_SPIN_US = 200_000.0
SHARE_OF_HOST = 0.1  # of a call's time; a call with a larger share of host time is host-bound


class Refused(Exception):
    """The kind cannot be measured here, for the reason in the text."""


def keep_freed_memory() -> None:
    """On the CPU, as the GPU's allocator does and the node's runners: glibc may give a large block back in every call,
    by chance of its layout, and the next call then waits for its pages: 4 ms instead of 0.7 for two pointwise operators
    on a million floats, in every second process."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        mmap_max, trim_threshold = -4, -1
        libc.mallopt(mmap_max, 0)
        libc.mallopt(trim_threshold, 2**31 - 1)


def load_torch() -> None:
    """Not at import, because standard output must be redirected before torch prints to it."""
    keep_freed_memory()
    global torch
    import torch
    import torch._dynamo  # now, so that no task waits for it


# ---- the model ------------------------------------------------------------------------------------------------------


def map_tensors(what: Any, change: Callable) -> Any:
    """The same structure of lists, tuples and dicts with every tensor changed."""
    if isinstance(what, torch.Tensor):
        return change(what)
    if isinstance(what, (list, tuple)):
        items = [map_tensors(item, change) for item in what]
        return type(what)(*items) if hasattr(what, "_fields") else type(what)(items)
    if isinstance(what, dict):
        return {key: map_tensors(item, change) for key, item in what.items()}
    return what


def tensors_of(what: Any) -> list:
    found: list = []
    map_tensors(what, lambda t: (found.append(t), t)[1])
    return found


def seed_everything(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)


def load_module(source: str) -> types.ModuleType:
    name = "cudal1_model_" + hashlib.sha256(source.encode()).hexdigest()[:16]
    spec = importlib.util.spec_from_file_location(name, source)
    if spec is None or spec.loader is None:
        raise Refused(f"{source} cannot be loaded as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # torch.compile looks for the source there
    spec.loader.exec_module(module)
    for wanted in ("Model", "get_inputs"):
        if not hasattr(module, wanted):
            raise Refused(f"{os.path.basename(source)} defines no {wanted}")
    return module


class Subject:
    """A model and a rotation of its inputs on the device."""

    def __init__(self, module: types.ModuleType, seed: int, device: torch.device):
        self.name = module.__name__
        self.device = device
        seed_everything(seed)
        initial = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
        seed_everything(seed)
        if isinstance(initial, dict):
            self.model = module.Model(**initial)
        else:
            self.model = module.Model(*initial)
        self.model = self.model.to(device)
        self.draws = self.make_draws(module.get_inputs, seed)
        self.turn = 0

    def make_draws(self, get_inputs: Callable, seed: int) -> list[list]:
        """Enough draws to exceed the cache together, and at least three, unless memory or time allows fewer."""
        draws: list[list] = []
        wanted = 3
        begin = time.perf_counter()
        while len(draws) < wanted and (len(draws) < 3 or time.perf_counter() - begin < DRAWING_S):
            seed_everything(seed + len(draws))
            made = get_inputs()
            if not isinstance(made, (list, tuple)):
                raise Refused("get_inputs does not return a list")
            size = sum(t.numel() * t.element_size() for t in tensors_of(list(made)))
            if draws and size > self.free_bytes() // 4:
                break
            draws.append([map_tensors(item, lambda t: t.to(self.device)) for item in made])
            if len(draws) == 1 and size > 0:
                wanted = max(3, min(MOST_DRAWS, math.ceil(2 * cache_bytes(self.device) / size)))
        return draws

    def free_bytes(self) -> int:
        if self.device.type == "cuda":
            return torch.cuda.mem_get_info(self.device)[0]
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def next_draw(self) -> list:
        """Never the draw of the last call, if there are several."""
        self.turn = (self.turn + 1) % len(self.draws)
        return self.draws[self.turn]

    def forget(self) -> None:
        self.draws.clear()
        sys.modules.pop(self.name, None)


def cache_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).L2_cache_size
    return 32 << 20


# ---- how each kind calls it -----------------------------------------------------------------------------------------


@dataclasses.dataclass
class Row:
    """Calls in a row, and the host's pace then."""

    call_us: list[float]
    pace_us: float
    python_us: float


def samples_of(rows: list[Row]) -> list[float]:
    return [us for row in rows for us in row.call_us]


class Calls:
    """How one kind calls the model, and what it measured."""

    def __init__(self, kind: str, subject: Subject | None):
        self.kind = kind
        self.subject = subject
        self.rows: list[Row] = []
        self.device_us: list[float] = []
        self.call_us: list[float] = []  # of the rows that count, as are the next two
        self.pace_us = 0.0
        self.python_us = 0.0
        self.dropped_calls = 0
        self.prepare_s = 0.0
        self.check = ""
        self.notes: list[str] = []
        self.spin_us = 300.0
        self.spin_too_short = 0

    def in_thread(self, what: Callable) -> Any:
        """Runs `what` on the thread that makes calls of this kind."""
        return what()

    def prepare(self) -> None:
        """Does everything that is done once: compiling, choosing, capturing, and the warm-up."""
        for _ in range(3):
            self.run(self.subject.next_draw())
            synchronize(self.subject.device)

    def run(self, inputs: list) -> Any:
        return self.subject.model(*inputs)

    def settle(self) -> None:
        """Called before each timed call, untimed."""

    def close(self) -> None:
        pass

    def counting_rows(self, pace_us: float) -> list[Row]:
        """The rows in which the host was no slower than this; all of them if the calls are not host-bound."""
        if statistics.median(samples_of(self.rows) or [0.0]) <= self.device_time_us() / (1 - SHARE_OF_HOST):
            return self.rows
        return [row for row in self.rows if row.pace_us <= pace_us]

    def device_time_us(self) -> float:
        return statistics.median(self.device_us) if self.device_us else 0.0


class Compiled(Calls):
    def prepare(self) -> None:
        mode = None if self.kind == "compile" else self.kind
        self.compiled = torch.compile(self.subject.model, mode=mode)
        torch._dynamo.utils.counters.clear()
        # A graph of the modes with CUDA graphs is recorded with the second call and replayed from the third on.
        for _ in range(3 if mode is None else 6):
            self.settle()
            self.run(self.subject.next_draw())
            synchronize(self.subject.device)
        skips = torch._dynamo.utils.counters["inductor"].get("cudagraph_skips", 0)
        if mode is not None and skips:
            self.notes.append(f"torch.compile skipped CUDA graphs {skips} times")

    def run(self, inputs: list) -> Any:
        return self.compiled(*inputs)

    def settle(self) -> None:
        if self.kind in ("reduce-overhead", "max-autotune"):
            torch.compiler.cudagraph_mark_step_begin()

    def close(self) -> None:
        self.compiled = None
        torch._dynamo.reset()


class Graphed(Calls):
    """A CUDA graph of the model, with its inputs copied in; the output is the graph's own memory."""

    def prepare(self) -> None:
        first = self.subject.draws[0]
        self.static = [map_tensors(item, torch.clone) for item in first]
        self.into = tensors_of(self.static)
        stream = torch.cuda.Stream(self.subject.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.subject.model(*self.static)
        torch.cuda.current_stream().wait_stream(stream)
        synchronize(self.subject.device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.output = self.subject.model(*self.static)
        super().prepare()

    def run(self, inputs: list) -> Any:
        for target, source in zip(self.into, tensors_of(inputs)):
            target.copy_(source)
        self.graph.replay()
        return self.output

    def close(self) -> None:
        self.graph = self.output = self.static = self.into = None


class Tuned(Calls):
    """torch.backends.cudnn.benchmark. cuDNN's plans are kept by thread and shape, whichever way they were chosen: after
    an eager call benchmark mode would only find eager's plans. So this kind has a thread of its own."""

    def __init__(self, kind: str, subject: Subject):
        super().__init__(kind, subject)
        self.work: queue.Queue = queue.Queue()
        self.results: queue.Queue = queue.Queue()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        device = self.subject.device
        if device.type == "cuda":
            torch.cuda.set_device(device)
        with torch.no_grad():
            while (what := self.work.get()) is not None:
                result, problem = None, None
                torch.backends.cudnn.benchmark = True  # of the whole process: off before the other thread goes on
                try:
                    result = what()
                except BaseException as caught:  # is raised in the calling thread
                    problem = caught
                torch.backends.cudnn.benchmark = False
                self.results.put((result, problem))
                what = result = problem = None

    def in_thread(self, what: Callable) -> Any:
        self.work.put(what)
        result, problem = self.results.get()
        if problem is not None:
            raise problem
        return result

    def prepare(self) -> None:
        self.in_thread(super().prepare)

    def close(self) -> None:
        self.work.put(None)
        self.thread.join()


CALLS: dict[str, type[Calls]] = {
    "eager": Calls,
    "cudnn": Tuned,
    "compile": Compiled,
    "reduce-overhead": Compiled,
    "max-autotune": Compiled,
    "graph": Graphed,
}


# ---- the clock ------------------------------------------------------------------------------------------------------


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Clock:
    """Times single calls with caches flushed, as the node's own runner does (sandbox/cuda/runner/runner_device.cpp)."""

    def __init__(self, device: torch.device, flush_bytes: int):
        self.device = device
        if device.type == "cuda":
            flush_bytes = flush_bytes or max(4 * cache_bytes(device), 256 << 20)
            self.cycles_per_us = self.calibrate()
            # Waits as the node's runner does. torch.cuda.synchronize goes through a Python context manager, which takes
            # microseconds of each call; a call's work on other streams is joined to this one when it returns.
            self.wait = torch.cuda.current_stream(device).synchronize
        else:
            self.wait = lambda: None
        self.buffer = torch.ones(max(1, (flush_bytes or 40 << 20) // 4), dtype=torch.float32, device=device)

    def calibrate(self) -> float:
        """Cycles of torch.cuda._sleep per microsecond."""
        cycles = 20_000_000
        best = math.inf
        for _ in range(3):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            torch.cuda._sleep(cycles)
            end.record()
            end.synchronize()
            best = min(best, begin.elapsed_time(end) * 1000)
        return cycles / best

    def flush(self) -> None:
        torch.amax(self.buffer)

    def call(self, calls: Calls, inputs: list) -> float:
        """Microseconds of the call and its synchronisation by the host's clock."""
        calls.settle()
        self.flush()
        synchronize(self.device)
        begin = time.perf_counter_ns()
        output = calls.run(inputs)
        self.wait()
        end = time.perf_counter_ns()
        del output
        return (end - begin) / 1000

    def on_device(self, calls: Calls, inputs: list) -> float | None:
        """Microseconds between two events, while a spinning kernel hides the time that the host takes to launch. None
        if the spinning ended before the last launch; it is longer the next time."""
        calls.settle()
        self.flush()
        synchronize(self.device)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(int(calls.spin_us * self.cycles_per_us))
        begin.record()
        output = calls.run(inputs)
        end.record()
        hidden = not begin.query()
        synchronize(self.device)
        del output
        if not hidden and calls.spin_us < LONGEST_SPIN_US:
            calls.spin_us = min(2 * calls.spin_us, LONGEST_SPIN_US)
            return None
        if not hidden:
            calls.spin_too_short += 1
        return begin.elapsed_time(end) * 1000
