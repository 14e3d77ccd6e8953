"""How PyTorch's calls are made and timed: eager, compiled, captured.

A Subject is a model with a rotation of its inputs, the classes of CALLS are the ways to call it, and measure times one
of them with a Clock. `cudal1 baseline` measures with this (baseline.py), and `cudal1 export --format
kernelbench` puts this file beside check.py, which times with it too: what eager takes there and here is to be the same.

load_torch is called before anything else: torch is not imported when this file is read.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import gc
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

MOST_SAMPLES = 2000
MOST_DRAWS = 64
DRAWING_S = 3.0  # no more than the least number of draws is made after that
LONGEST_SPIN_US = 200_000.0
IN_A_ROW = 8
LONG_US = 10_000.0  # a call that takes so long is a row by itself
SHARE_OF_HOST = 0.1  # of a call's time, beside the device's; what is more makes it the host's as well
SAME_PACE = 1.1  # a host that is so many times slower than at its best is still as good as that
LOOKS_KEPT = 64  # at cores
LOOK_EVERYWHERE_EVERY = 16  # times that a core is chosen
SLOW_TIMES = 2  # in a row that calls were slow, until their core is left though it seems fast
PAUSE_S = 0.01  # before calls on a host of which every core is slower
WATCHED_S = 2.0  # how long its pace is looked at where nothing is known of it
KEPT_FOR = 9  # times that its pace is looked at, before it counts as one that the host keeps
MOST_TIMES = 20  # the seconds that were asked for, until enough calls count


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


@dataclasses.dataclass
class Row:
    """Calls one after the other, and how fast the host was then."""

    call_us: list[float]
    pace_us: float
    python_us: float


class Calls:
    """How one kind calls the model, and what it measured."""

    def __init__(self, kind: str, subject: Subject | None):
        self.kind = kind
        self.subject = subject
        self.rows: list[Row] = []
        self.device_us: list[float] = []
        self.call_us: list[float] = []  # of the rows that count, once all are taken, and of Pace in them:
        self.pace_us = 0.0
        self.python_us = 0.0
        self.dropped_calls = 0
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

    def counting_rows(self, pace_us: float) -> list[Row]:
        """Those in which the host was no slower than that; all, where the time is the device's but for a small part."""
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
    """Times single calls with caches flushed, as the node's own runner does (sandbox/cuda/runner/runner_device.cpp)."""

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


# ---- the host's pace -------------------------------------------------------------------------------------------------


def lowest_tenth(in_order: list[float]) -> float:
    """What was kept for a tenth of the time that was looked at: the least of all is luck."""
    return in_order[len(in_order) // 10]


def known_work_us() -> float:
    """Of some ten microseconds on a core that nobody else uses."""
    begin = time.perf_counter_ns()
    value = 0
    for i in range(300):
        value = (value * 1664525 + i) & 0xFFFFFFFF
    return (time.perf_counter_ns() - begin) / 1000


class Cores:
    """Where a thread goes for its timed calls. On a machine that is shared a core is 1.5 times slower and more while
    somebody else uses the other hyperthread of it, for tenths of a second to seconds, each core by itself. (The node's
    runners do the same: sandbox/isolation/core_choice.hpp.)"""

    def __init__(self, allowed: Any):
        self.allowed: list[int] = sorted(allowed)  # the one that was chosen last comes first
        self.looks_us: collections.deque[float] = collections.deque(maxlen=LOOKS_KEPT)  # the last ones, at any core
        self.choices = 0  # since all were looked at

    def use(self, allowed: Any) -> None:
        """Only these from now on."""
        if set(allowed) != set(self.allowed):
            self.allowed = sorted(allowed)

    def go(self, core: int) -> None:
        os.sched_setaffinity(0, {core})

    def work_us(self) -> float:
        return min(known_work_us() for _ in range(3))

    def best_us(self) -> float:
        return lowest_tenth(sorted(self.looks_us))

    def go_to_a_fast_one(self, leave: bool = False) -> bool:
        """The calling thread, to the first that is about as fast as the fastest were lately, beginning with where it
        is, or behind that where it is to leave; where there is none, to the fastest, and the answer is no. Now and
        then it looks at all."""
        if leave and self.allowed:
            self.allowed.append(self.allowed.pop(0))
        self.choices += 1
        everywhere = not self.looks_us or self.choices >= LOOK_EVERYWHERE_EVERY
        if everywhere:
            self.choices = 0
        took: dict[int, float] = {}
        for core in list(self.allowed):
            try:
                self.go(core)
            except OSError:  # a container that allows fewer
                self.allowed.remove(core)
                continue
            took[core] = self.work_us()
            self.looks_us.append(took[core])
            if not everywhere and took[core] <= SAME_PACE * self.best_us():
                break
        if not took:
            return True
        fastest = min(took, key=took.__getitem__)
        self.go(fastest)
        at = self.allowed.index(fastest)
        self.allowed = self.allowed[at:] + self.allowed[:at]
        return took[fastest] <= SAME_PACE * self.best_us()


class Known(Calls):
    """A module without a subject, whose time beside the device's is the host's alone."""

    def __init__(self, module: torch.nn.Module, value: torch.Tensor):
        super().__init__("known", None)
        self.module, self.inputs = module, [value]

    def run(self, inputs: list) -> Any:
        return self.module(*inputs)

    def host_us(self, clock: Clock) -> float:
        """What a call takes beside the device's time. The first is not counted."""
        if not self.device_us:
            found = [clock.on_device(self, self.inputs) for _ in range(16)]
            self.device_us = [us for us in found if us is not None] or [0.0]
        took = [clock.call(self, self.inputs) for _ in range(4)]
        return max(0.1, statistics.median(took[1:]) - self.device_time_us())


def known_operators(device: torch.device) -> Known:
    """Five small operators, each in a module of its own: what PyTorch's calls are made of."""
    return Known(torch.nn.Sequential(*[torch.nn.ReLU() for _ in range(5)]), torch.zeros(1, device=device))


def known_replay(device: torch.device) -> Known:
    """One small kernel as a CUDA graph behind a module, whose output is a new tensor in each call."""
    value = torch.zeros(1, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value.add_(1)

    class Module(torch.nn.Module):
        def forward(self, *inputs: Any, **options: Any) -> Any:
            output = torch.empty_like(value)
            graph.replay()
            return output

    return Known(Module(), value)


class Pace:
    """How fast the host makes calls from Python just now: what a call of known operators takes beside the device's
    time. A host that serves others as well changes its pace by up to two times from second to second, and with it the
    time of every short call of PyTorch, on any core (Cores) and for other reasons: such times count where the host was
    at its best.

    python_us is the least that a call from Python takes beside the device's time, where all its work is one CUDA graph.
    The node's own runner, which is no Python, takes less; who compares its times with these must count that.

    Both are 0 on the CPU."""

    def __init__(self, device: torch.device, known_us: float = 0.0):
        self.device = device
        self.cores = Cores([])
        self.operators: Known | None = None
        self.replay: Known | None = None
        self.python_us = 0.0
        self.known_us = known_us  # its best, as others saw it; 0: nobody did
        self.slow_times = 0  # in a row, lately
        self.recent: list[float] = []
        self.kept: list[float] = []  # in order of size

    def now_us(self, clock: Clock) -> float:
        if self.device.type != "cuda":
            return 0.0
        if self.operators is None or self.replay is None:
            self.operators, self.replay = known_operators(self.device), known_replay(self.device)
        us = self.operators.host_us(clock)
        self.python_us = self.replay.host_us(clock)
        self.note(us)
        return us

    def watch(self, clock: Clock) -> None:
        """Before the first calls: longer where nobody saw its best yet."""
        until = time.perf_counter() + (0.0 if self.known_us or self.kept else WATCHED_S)
        for _ in range(KEPT_FOR):
            self.look(clock)
        while self.device.type == "cuda" and time.perf_counter() < until:
            self.look(clock)

    def look(self, clock: Clock) -> None:
        self.go_on(is_hosts=True)
        self.now_us(clock)

    def note(self, us: float) -> None:
        self.recent.append(us)
        if len(self.recent) == KEPT_FOR:
            bisect.insort(self.kept, statistics.median(self.recent))
            self.recent.clear()
        self.slow_times = self.slow_times + 1 if us > SAME_PACE * self.wanted_us() else 0

    def best_us(self) -> float:
        if self.kept:
            return lowest_tenth(self.kept)
        return statistics.median(self.recent) if self.recent else 0.0

    def wanted_us(self) -> float:
        """Its best, as anybody saw it."""
        return min(self.known_us or self.best_us(), self.best_us())

    def go_on(self, is_hosts: bool) -> None:
        """Before calls, whose time is the host's for a part or not: to a core that is fast, after a pause where that
        does not help."""
        if self.device.type != "cuda":
            return
        stuck = is_hosts and self.slow_times >= SLOW_TIMES
        if stuck:
            self.slow_times = 0
        if (not self.cores.go_to_a_fast_one(leave=stuck) or stuck) and is_hosts:
            time.sleep(PAUSE_S)


# ---- measuring -------------------------------------------------------------------------------------------------------


def take_samples(clock: Clock, pace: Pace, calls: Calls) -> None:
    """Some by each clock. A short call is mostly the host's, which is faster at what it did just before: such calls
    come in a row, and the first is not counted. So everything is seen at its best, as in a loop of a benchmark."""

    def all_of_them() -> None:
        pace.go_on(is_hosts=not calls.counting_rows(0.0))
        first = clock.call(calls, calls.subject.next_draw())
        long = first >= LONG_US
        row = [first] if long else [clock.call(calls, calls.subject.next_draw()) for _ in range(IN_A_ROW)]
        calls.rows.append(Row(row, pace.now_us(clock), pace.python_us))
        if clock.device.type == "cuda":
            for _ in range(1 if long else IN_A_ROW // 4):
                took = clock.on_device(calls, calls.subject.next_draw())
                if took is not None:
                    calls.device_us.append(took)

    calls.in_thread(all_of_them)


def find_spin(clock: Clock, calls: Calls) -> None:
    """How long the device has to spin until the host has launched a call."""
    if clock.device.type != "cuda":
        return
    while calls.in_thread(lambda: clock.on_device(calls, calls.subject.next_draw())) is None:
        pass
    calls.spin_too_short = 0


def samples_of(rows: list[Row]) -> list[float]:
    return [us for row in rows for us in row.call_us]


def enough(calls: Calls, pace: Pace, spent_s: float, request: dict) -> bool:
    taken = sum(len(row.call_us) for row in calls.rows)
    counted = samples_of(calls.counting_rows(SAME_PACE * pace.wanted_us()))
    if len(counted) < request["least_samples"]:
        return taken >= 3 and spent_s >= MOST_TIMES * request["seconds"]  # calls of seconds, a host that is slow
    if len(counted) >= MOST_SAMPLES or spent_s >= request["seconds"]:
        return True
    on_device = calls.subject.device.type == "cuda"
    return half_width(counted) <= 0.01 and (not on_device or half_width(calls.device_us) <= 0.01)


def count_rows(calls: Calls, pace: Pace, least: int) -> None:
    """Those in which the host was at its best; where they are few, at the best that was seen here, or the fastest."""
    counted = calls.counting_rows(SAME_PACE * pace.wanted_us())
    if len(samples_of(counted)) < least:
        counted = calls.counting_rows(SAME_PACE * pace.best_us())
    for slowest_us in sorted(row.pace_us for row in calls.rows):
        if len(samples_of(counted)) >= least:
            break
        counted = calls.counting_rows(slowest_us)
    calls.call_us = samples_of(counted)
    calls.dropped_calls = len(samples_of(calls.rows)) - len(calls.call_us)
    calls.pace_us = statistics.median(row.pace_us for row in counted)
    calls.python_us = statistics.median(row.python_us for row in counted)
    slower = calls.pace_us / pace.wanted_us() if pace.wanted_us() > 0 else 1.0
    if slower > SAME_PACE and len(calls.counting_rows(0.0)) < len(counted):
        calls.notes.append(f"the host was {slower:.2f} times slower than at its best all the while")


def measure(clock: Clock, pace: Pace, calls: Calls, request: dict) -> None:
    """Until the calls' median is known well enough, or they have had their time. By themselves, not in turns with
    others: those would leave their own code and data in the caches. On request["cores"], or where there are none on
    those that this thread may use: calls on a GPU on one of them at a time."""
    spent = 0.0
    before = os.sched_getaffinity(0)
    cores = request["cores"] or before
    # Until the end this thread is on one core, or on few: threads that start meanwhile stay there.
    if clock.device.type == "cuda":
        pace.cores.use(cores)
    else:
        calls.in_thread(lambda: use_cores(cores))
    gc.collect()
    gc.disable()
    try:
        calls.in_thread(lambda: pace.watch(clock))
        find_spin(clock, calls)
        while not enough(calls, pace, spent, request):
            begin = time.perf_counter()
            take_samples(clock, pace, calls)
            spent += time.perf_counter() - begin
    finally:
        gc.enable()
        use_cores(before)
    count_rows(calls, pace, request["least_samples"])


def use_cores(cores: Any) -> None:
    """The calling thread on all of these."""
    try:
        os.sched_setaffinity(0, cores)
    except OSError:  # a container that allows fewer
        pass


def load_torch() -> None:
    """Not when this file is read: what torch prints is to go where standard output was put by then."""
    global torch
    import torch
    import torch._dynamo  # now, so that no task waits for it
