#!/usr/bin/env python3
"""PyTorch's own times of a model, for `cudal1 baseline`.

A process that measures on one device. It reads JSON objects from its standard input, one a line, and answers on its
standard output likewise; whatever torch prints goes to standard error. What it is asked:

  {"task": "softmax", "source": "/path/23_Softmax.py", "seed": 42, "kinds": ["eager", "graph"],
   "seconds": 1.0, "least_samples": 10, "prepare_seconds": 120, "flush_bytes": 0, "threads": 1, "cores": [6, 7]}

What it answers:

  {"event": "ready", "torch": "torch 2.11.0+cu130, Python 3.11.2"}             once, when torch is loaded
  {"event": "begin", "kinds": ["graph"], "doing": "...", "limit_s": 130.0}     it may be silent for so long now
  {"event": "kind", "kind": "graph", "problem": "", "call_us": [...], ...}     one for each kind that was asked for
  {"event": "done"}                                                            the next request may come
  {"event": "broken", "problem": "..."}                                        it cannot go on measuring, and ends

A kind that cannot be measured is an answer with a sentence in "problem"; the others go on. The source defines Model,
get_inputs and get_init_inputs, as KernelBench's do. The module is run in train mode and without gradients, as
KernelBench's evaluation runs it.

`cudal1 export --format kernelbench` puts this file beside check.py, which times with its Subject, Calls, Clock and
measure: what eager takes there and here is to be the same.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import hashlib
import importlib.util
import json
import math
import os
import platform
import queue
import random
import signal
import statistics
import sys
import threading
import time
import traceback
import types
from typing import Any, Callable

KINDS = ("eager", "cudnn", "compile", "reduce-overhead", "graph")
CLOSE = 1e-2  # results that differ by more, absolutely or relatively, are said to differ
MOST_SAMPLES = 2000
MOST_DRAWS = 64
DRAWING_S = 3.0  # no more than the least number of draws is made after that
LONGEST_SPIN_US = 200_000.0
IN_A_ROW = 8
LONG_US = 10_000.0  # the host is no part of a call that takes so long

answers = None  # our standard output, once fd 1 is everybody else's standard error


def say(event: str, **members: Any) -> None:
    answers.write(json.dumps({"event": event, **members}) + "\n")
    answers.flush()


def sentence(problem: BaseException) -> str:
    """What a person needs of an exception: its kind and the first lines of its text."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    text = " ".join(lines[:3])
    if len(text) > 400:
        text = text[:400] + "..."
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def half_width(samples: list[float]) -> float:
    """Half of the 95% interval of the median, as a share of it; of order statistics, so of any distribution."""
    n = len(samples)
    if n < 6:
        return math.inf
    ordered = sorted(samples)
    reach = 0.98 * math.sqrt(n)
    low = max(0, math.floor(n / 2 - reach))
    high = min(n - 1, math.ceil(n / 2 + reach))
    middle = statistics.median(ordered)
    return (ordered[high] - ordered[low]) / 2 / middle if middle > 0 else math.inf


class Refused(Exception):
    """The kind cannot be measured here; the text is the whole answer."""


class Spoiled(Exception):
    """This process cannot go on measuring, and the text says why; what is left is for the next one."""


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
        """As many draws as are larger than the cache together; at least three where memory allows, then fewer."""
        draws: list[list] = []
        wanted = 3
        begin = time.perf_counter()
        while len(draws) < wanted and (len(draws) < 3 or time.perf_counter() - begin < DRAWING_S):
            seed_everything(seed + len(draws))
            made = get_inputs()
            if not isinstance(made, (list, tuple)):
                raise Refused("get_inputs gives no list")
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
        """Never the one of the last call, where there are two."""
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


class Calls:
    """How one kind calls the model, and what it measured."""

    def __init__(self, kind: str, subject: Subject):
        self.kind = kind
        self.subject = subject
        self.call_us: list[float] = []
        self.device_us: list[float] = []
        self.prepare_s = 0.0
        self.check = ""
        self.notes: list[str] = []
        self.spin_us = 300.0
        self.spin_too_short = 0

    def in_thread(self, what: Callable) -> Any:
        """On the thread that calls of this kind are made on."""
        return what()

    def prepare(self) -> None:
        """All that is done once: whatever is compiled, chosen or captured, and the warm-up."""
        for _ in range(3):
            self.run(self.subject.next_draw())
            synchronize(self.subject.device)

    def run(self, inputs: list) -> Any:
        return self.subject.model(*inputs)

    def settle(self) -> None:
        """Before each timed call, off the clock."""

    def close(self) -> None:
        pass


class Compiled(Calls):
    def prepare(self) -> None:
        mode = None if self.kind == "compile" else self.kind
        self.compiled = torch.compile(self.subject.model, mode=mode)
        torch._dynamo.utils.counters.clear()
        # A graph of "reduce-overhead" is recorded with the second call and replayed from the third on.
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
        if self.kind == "reduce-overhead":
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
                except BaseException as caught:  # goes to the thread that asked
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
    "graph": Graphed,
}


# ---- the clock ------------------------------------------------------------------------------------------------------


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Clock:
    """Times single calls with caches flushed, as the node's own runner does (sandbox/cuda/runner_device.cpp)."""

    def __init__(self, device: torch.device, flush_bytes: int):
        self.device = device
        if device.type == "cuda":
            flush_bytes = flush_bytes or max(4 * cache_bytes(device), 256 << 20)
            self.cycles_per_us = self.calibrate()
            # As the node's runner waits. torch.cuda.synchronize goes through a context manager of Python's, which takes
            # microseconds of each call; what a call did on other streams is joined to this one when it returns.
            self.wait = torch.cuda.current_stream(device).synchronize
        else:
            self.wait = lambda: None
        self.buffer = torch.ones(max(1, (flush_bytes or 40 << 20) // 4), dtype=torch.float32, device=device)

    def calibrate(self) -> float:
        """Cycles of torch.cuda._sleep in a microsecond."""
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
        """Microseconds of the host's clock round the call and its synchronisation."""
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
        """Microseconds between two events, while a kernel that spins hides how long the host takes to launch. Nothing
        where the spinning ended before the last launch: it is longer the next time."""
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


def take_samples(clock: Clock, calls: Calls) -> None:
    """Some by each clock. A short call is mostly the host's, which is faster at what it did just before: such calls come
    in a row, and the first is not counted. So everything is seen at its best, as in a loop of a benchmark."""

    def all_of_them() -> None:
        first = clock.call(calls, calls.subject.next_draw())
        if first >= LONG_US:
            calls.call_us.append(first)
        else:
            for _ in range(IN_A_ROW):
                calls.call_us.append(clock.call(calls, calls.subject.next_draw()))
        if clock.device.type == "cuda":
            for _ in range(IN_A_ROW // 4 if first < LONG_US else 1):
                took = clock.on_device(calls, calls.subject.next_draw())
                if took is not None:
                    calls.device_us.append(took)

    calls.in_thread(all_of_them)


class Replay:
    """One small kernel as a CUDA graph behind a module, whose output is a new tensor in each call."""

    def __init__(self, device: torch.device):
        self.spin_us, self.spin_too_short = 300.0, 0
        value = torch.zeros(1, device=device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            value.add_(1)

        class Module(torch.nn.Module):
            def forward(self, *inputs: Any, **options: Any) -> Any:
                output = torch.empty_like(value)
                graph.replay()
                return output

        self.module, self.inputs = Module(), [value]

    def settle(self) -> None:
        pass

    def run(self, inputs: list) -> Any:
        return self.module(*inputs)


def beside_the_device_us(clock: Clock) -> float:
    """What a call from Python takes beside the device's time, at the least: where all its work is one CUDA graph. The
    node's own runner, which is no Python, takes less; who compares its times with these must count that. 0 on the CPU."""
    if clock.device.type != "cuda":
        return 0.0
    replay = Replay(clock.device)
    call_us, device_us = [], []
    for _ in range(6):
        clock.call(replay, replay.inputs)
        call_us += [clock.call(replay, replay.inputs) for _ in range(IN_A_ROW)]
        device_us.append(clock.on_device(replay, replay.inputs))
    known = [us for us in device_us if us is not None]
    return max(0.0, statistics.median(call_us) - statistics.median(known)) if known else 0.0


def find_spin(clock: Clock, calls: Calls) -> None:
    """How long the device has to spin until the host has launched a call."""
    if clock.device.type != "cuda":
        return
    while calls.in_thread(lambda: clock.on_device(calls, calls.subject.next_draw())) is None:
        pass
    calls.spin_too_short = 0


def enough(calls: Calls, spent_s: float, request: dict) -> bool:
    n = len(calls.call_us)
    if n < request["least_samples"]:
        return n >= 3 and spent_s >= 20 * request["seconds"]  # calls of seconds
    if n >= MOST_SAMPLES or spent_s >= request["seconds"]:
        return True
    on_device = calls.subject.device.type == "cuda"
    return half_width(calls.call_us) <= 0.01 and (not on_device or half_width(calls.device_us) <= 0.01)


def measure(clock: Clock, group: list[Calls], request: dict) -> None:
    """The calls of a group in turns of random order, until each is known well enough or has had its time."""
    spent = {calls.kind: 0.0 for calls in group}
    order = random.Random(request["seed"])
    open_calls = list(group)
    gc.collect()
    gc.disable()
    try:
        for calls in group:
            find_spin(clock, calls)
        while open_calls:
            order.shuffle(open_calls)
            for calls in open_calls:
                begin = time.perf_counter()
                take_samples(clock, calls)
                spent[calls.kind] += time.perf_counter() - begin
            open_calls = [c for c in open_calls if not enough(c, spent[c.kind], request)]
    finally:
        gc.enable()


# ---- a task ---------------------------------------------------------------------------------------------------------


class Agreement:
    """Eager's result on the first draw, which the other kinds should give too."""

    def __init__(self, subject: Subject, seed: int):
        self.subject, self.seed = subject, seed
        self.expected = self.result_of(subject.model)
        again = self.result_of(subject.model)
        self.random = self.difference(again) != ""

    def result_of(self, call: Callable) -> list:
        seed_everything(self.seed)
        output = call(*self.subject.draws[0])
        synchronize(self.subject.device)
        return [t.detach().clone() for t in tensors_of(output)]

    def difference(self, got: list) -> str:
        if len(got) != len(self.expected):
            return f"it has {len(got)} tensors and eager's has {len(self.expected)}"
        for i, (a, b) in enumerate(zip(got, self.expected)):
            if a.shape != b.shape or a.dtype != b.dtype:
                return f"output {i} is {a.dtype}{list(a.shape)} and eager's is {b.dtype}{list(b.shape)}"
            if torch.allclose(a, b, rtol=CLOSE, atol=CLOSE, equal_nan=True):
                continue
            worst = (a.to(torch.float32) - b.to(torch.float32)).abs().nan_to_num(nan=math.inf).max().item()
            return f"output {i} differs from eager's by up to {worst:.3g}"
        return ""

    def of(self, calls: Calls) -> str:
        if self.random:
            return "not compared: eager itself gives another result with each call"

        def run(*inputs: Any) -> Any:
            calls.settle()
            return calls.run(list(inputs))

        return self.difference(calls.in_thread(lambda: self.result_of(run)))


def refusal_here(kind: str, device: torch.device) -> str:
    if kind not in KINDS:
        return f"there is no kind {kind}; there is: {', '.join(KINDS)}"
    if device.type == "cpu" and kind not in ("eager", "compile"):
        return "needs a GPU"
    return ""


def gpu_is_broken(device: torch.device) -> str:
    """An illegal access or a launch failure stays with the process; out of memory does not."""
    try:
        synchronize(device)
        return ""
    except Exception as problem:
        return sentence(problem)


def release_memory(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda" and not gpu_is_broken(device):
        torch.cuda.empty_cache()


class Task:
    def __init__(self, request: dict, device: torch.device):
        self.request, self.device = request, device
        self.answered: set[str] = set()
        self.python_us: float | None = None

    def answer(self, kind: str, problem: str = "", calls: Calls | None = None) -> None:
        if kind in self.answered:
            return
        self.answered.add(kind)
        say(
            "kind",
            kind=kind,
            problem=problem,
            call_us=calls.call_us if calls and not problem else [],
            device_us=calls.device_us if calls and not problem else [],
            prepare_s=calls.prepare_s if calls else 0.0,
            check=calls.check if calls else "",
            notes=calls.notes if calls else [],
            python_us=self.python_us or 0.0,
        )

    def begin(self, kinds: list[str], doing: str, limit_s: float) -> None:
        say("begin", kinds=kinds, doing=doing, limit_s=limit_s)

    def run(self) -> bool:
        """False where this process cannot go on."""
        kinds = []
        for kind in self.request["kinds"]:
            problem = refusal_here(kind, self.device)
            if problem:
                self.answer(kind, problem)
            else:
                kinds.append(kind)
        if not kinds:
            return True
        patience = self.request["prepare_seconds"]
        self.begin(kinds, "load the model and draw its inputs", patience)
        subject = None
        try:
            subject = Subject(load_module(self.request["source"]), self.request["seed"], self.device)
            self.measure_all(subject, kinds)
        except Spoiled as problem:
            say("broken", problem=str(problem))
            return False
        except Exception as problem:  # said of every kind that is left
            traceback.print_exc()
            for kind in kinds:
                self.answer(kind, str(problem) if isinstance(problem, Refused) else sentence(problem))
        finally:
            if subject is not None:
                subject.forget()
            torch._dynamo.reset()
            del subject
            release_memory(self.device)
        problem = gpu_is_broken(self.device)
        if problem:
            say("broken", problem=problem)
        return not problem

    def measure_all(self, subject: Subject, kinds: list[str]) -> None:
        patience = self.request["prepare_seconds"]
        agreement = Agreement(subject, self.request["seed"])
        clock = Clock(self.device, self.request["flush_bytes"])
        # Compiled kinds first: the others, which are beside the node's own measurements, then come last.
        for kind in [k for k in kinds if k in ("compile", "reduce-overhead")]:
            self.measure_group(subject, agreement, clock, [kind], patience)
        # Not in turns with others: their thread slept meanwhile, and wakes with cold caches.
        if "cudnn" in kinds:
            self.measure_group(subject, agreement, clock, ["cudnn"], patience)
        # A failed capture needs a fresh process for the rest: so that is tried first.
        cheap = sorted((k for k in kinds if k in ("eager", "graph")), key=lambda k: k != "graph")
        if cheap:
            self.measure_group(subject, agreement, clock, cheap, patience)

    def measure_group(self, subject: Subject, agreement: Agreement, clock: Clock, kinds: list[str],
                      patience: float) -> None:
        group: list[Calls] = []
        try:
            for kind in kinds:
                calls = CALLS[kind](kind, subject)
                group.append(calls)
                if not self.ready(calls, agreement, patience):
                    group.remove(calls)
                    calls.close()
            if not group:
                return
            left = [c.kind for c in group]
            self.begin(left, "measure", 60 + 40 * len(left) * self.request["seconds"])
            before = os.sched_getaffinity(0)
            try:
                for calls in group:
                    calls.in_thread(lambda: use_cores(self.request["cores"]))
                if self.python_us is None:
                    self.python_us = beside_the_device_us(clock)
                measure(clock, group, self.request)
            finally:
                use_cores(before)
            for calls in group:
                if calls.spin_too_short:
                    calls.notes.append("device time has launch gaps: the call waits for the device, or queues more than "
                                       "it takes")
                self.answer(calls.kind, calls=calls)
        except Spoiled:
            raise
        except Exception as problem:
            traceback.print_exc()
            for kind in kinds:
                self.answer(kind, sentence(problem))
            if broken := gpu_is_broken(self.device):
                raise Spoiled(broken) from problem
        finally:
            for calls in group:
                calls.close()
            release_memory(self.device)

    def ready(self, calls: Calls, agreement: Agreement, patience: float) -> bool:
        """Prepares and compares; answers for the kind where that fails."""
        self.begin([calls.kind], "prepare", patience)
        begin = time.perf_counter()
        try:
            calls.prepare()
            calls.prepare_s = time.perf_counter() - begin
            if calls.kind != "eager":
                calls.check = agreement.of(calls)
            return True
        except Exception as problem:
            traceback.print_exc()
            calls.prepare_s = time.perf_counter() - begin
            self.answer(calls.kind, sentence(problem), calls)
            if broken := gpu_is_broken(self.device):
                raise Spoiled(broken) from problem
            if calls.kind in ("graph", "reduce-overhead"):
                # The allocator may hold the memory of a capture that did not end, and believe that it goes on.
                raise Spoiled("a capture failed") from problem
            return False


def use_cores(cores: Any) -> None:
    """The calling thread on these, while it times on those that the node keeps free; none is all as it was."""
    if cores:
        try:
            os.sched_setaffinity(0, cores)
        except OSError:  # a container that allows fewer
            pass


def load_torch() -> None:
    """Not when this file is read: what torch prints is to go where standard output was put by then."""
    global torch
    import torch
    import torch._dynamo  # now, so that no task waits for it


# ---- the process ----------------------------------------------------------------------------------------------------


def take_standard_output() -> None:
    """Keeps fd 1 for the answers alone."""
    global answers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)


def end_with_parent() -> None:
    """No orphan stays on a device: SIGKILL when the one that started us has gone."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def main() -> int:
    arguments = argparse.ArgumentParser(description="Measures PyTorch itself; `cudal1 baseline` runs this.")
    arguments.add_argument("--device", default="cpu", help="cpu or cuda:N")
    options = arguments.parse_args()
    take_standard_output()
    end_with_parent()
    load_torch()
    device = torch.device(options.device)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            say("broken", problem="torch finds no GPU (torch.cuda.is_available() is false)")
            return 1
        torch.cuda.set_device(device)
    triton = ""
    try:
        import triton as found

        triton = f", Triton {found.__version__}"
    except ImportError:
        pass
    say("ready", torch=f"torch {torch.__version__}, Python {platform.python_version()}{triton}")
    for line in sys.stdin:
        request = json.loads(line)
        if device.type == "cpu":
            torch.set_num_threads(max(1, request["threads"]))
        with torch.no_grad():
            usable = Task(request, device).run()
        if not usable:
            return 1
        say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
