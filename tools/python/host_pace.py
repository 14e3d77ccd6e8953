"""The host's current pace, and its fastest cores: the pace of a shared machine changes from second to second, and with
it the time of every short call. Call pytorch_calls.load_torch before using this.
"""

from __future__ import annotations

import bisect
import collections
import os
import statistics
import time
from typing import Any

from pytorch_calls import Calls, Clock

SAME_PACE = 1.1  # a host at most this many times slower than its best counts as at its best
LOOKS_KEPT = 64  # measurements of cores
LOOK_EVERYWHERE_EVERY = 16  # choices of a core, until all cores are measured
SLOW_TIMES = 2  # slow results in a row, until a core is left although it seems fast
PAUSE_S = 0.01  # before calls, if every core is slower
WATCHED_S = 2.0  # how long the pace is measured if nothing is known about it
KEPT_FOR = 9  # measurements whose median counts as a pace that the host keeps


def lowest_tenth(in_order: list[float]) -> float:
    """The lowest decile; the minimum would be an outlier."""
    return in_order[len(in_order) // 10]


def benchmark_us() -> float:
    """The time of a fixed piece of work: some ten microseconds on an otherwise idle core."""
    begin = time.perf_counter_ns()
    value = 0
    for i in range(300):
        value = (value * 1664525 + i) & 0xFFFFFFFF
    return (time.perf_counter_ns() - begin) / 1000


class Cores:
    """Chooses the core for a thread's timed calls. On a shared machine a core is 1.5 or more times slower while others
    use its other hyperthread, for tenths of a second to seconds, independently of other cores. (The node's runners do
    the same: sandbox/isolation/core_choice.hpp.)"""

    def __init__(self, allowed: Any):
        self.allowed: list[int] = sorted(allowed)  # the one that was chosen last comes first
        self.looks_us: collections.deque[float] = collections.deque(maxlen=LOOKS_KEPT)  # the last ones, of any core
        self.choices = 0  # since all were measured

    def use(self, allowed: Any) -> None:
        """Uses only these from now on."""
        if set(allowed) != set(self.allowed):
            self.allowed = sorted(allowed)

    def go(self, core: int) -> None:
        os.sched_setaffinity(0, {core})

    def work_us(self) -> float:
        return min(benchmark_us() for _ in range(3))

    def best_us(self) -> float:
        return lowest_tenth(sorted(self.looks_us))

    def move_to_a_fast_core(self, leave: bool = False) -> bool:
        """Moves the calling thread to the first core that is about as fast as the fastest were lately, beginning with
        its current core, or after it with `leave`. If there is none, moves it to the fastest and returns False. Now and
        then it measures all cores."""
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
    """Calls of a module without a subject, to measure host time."""

    def __init__(self, module: torch.nn.Module, value: torch.Tensor):
        super().__init__("known", None)
        self.module, self.inputs = module, [value]

    def run(self, inputs: list) -> Any:
        return self.module(*inputs)

    def host_us(self, clock: Clock) -> float:
        """Host time of a call: its time minus the device's. The first call is not counted."""
        if not self.device_us:
            found = [clock.on_device(self, self.inputs) for _ in range(16)]
            self.device_us = [us for us in found if us is not None] or [0.0]
        took = [clock.call(self, self.inputs) for _ in range(4)]
        return max(0.1, statistics.median(took[1:]) - self.device_time_us())


def known_operators(device: torch.device) -> Known:
    """Five small operators, each in a module of its own, which are typical of PyTorch's calls."""
    import torch

    return Known(torch.nn.Sequential(*[torch.nn.ReLU() for _ in range(5)]), torch.zeros(1, device=device))


def known_replay(device: torch.device) -> Known:
    """One small kernel as a CUDA graph behind a module, whose output is a new tensor in each call. As an exported
    module, it does without what nn.Module takes for a call."""
    import torch

    value = torch.zeros(1, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value.add_(1)

    class Module(torch.nn.Module):
        def __call__(self, *inputs: Any, **options: Any) -> Any:
            output = torch.empty_like(value)
            graph.replay()
            return output

    return Known(Module(), value)


class Pace:
    """How fast the host makes calls from Python now: the host time of a call of known operators. A shared host changes
    its pace by up to a factor of two from second to second, and with it the time of every short call of PyTorch, on any
    core (Cores) and for other reasons: such times count while the host is at its best.

    python_us is the least host time of a call from Python whose work is one CUDA graph. The node's own runner is not
    Python and takes less; comparisons of its times with these must account for that.

    Both are 0 on the CPU."""

    def __init__(self, device: torch.device, known_us: float = 0.0):
        self.device = device
        self.cores = Cores([])
        self.operators: Known | None = None
        self.replay: Known | None = None
        self.python_us = 0.0
        self.known_us = known_us  # its best as measured before; 0: unknown
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
        """Call it before the first calls. It takes longer if the best pace is not known yet."""
        until = time.perf_counter() + (0.0 if self.known_us or self.kept else WATCHED_S)
        for _ in range(KEPT_FOR):
            self.look(clock)
        while self.device.type == "cuda" and time.perf_counter() < until:
            self.look(clock)

    def look(self, clock: Clock) -> None:
        self.go_on(host_bound=True)
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
        """Its best, as measured now or before."""
        return min(self.known_us or self.best_us(), self.best_us())

    def go_on(self, host_bound: bool) -> None:
        """Call it before calls: moves to a fast core and, if that does not help host-bound calls, pauses."""
        if self.device.type != "cuda":
            return
        stuck = host_bound and self.slow_times >= SLOW_TIMES
        if stuck:
            self.slow_times = 0
        if (not self.cores.move_to_a_fast_core(leave=stuck) or stuck) and host_bound:
            time.sleep(PAUSE_S)
