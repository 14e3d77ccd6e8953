"""How fast the host is just now, and on which core: a machine that is shared changes its pace from second to second, and
with it the time of every short call. pytorch_calls.load_torch is called before this is used.
"""

from __future__ import annotations

import bisect
import collections
import os
import statistics
import time
from typing import Any

from pytorch_calls import Calls, Clock

SAME_PACE = 1.1  # a host that is so many times slower than at its best is still as good as that
LOOKS_KEPT = 64  # at cores
LOOK_EVERYWHERE_EVERY = 16  # times that a core is chosen
SLOW_TIMES = 2  # in a row that calls were slow, until their core is left though it seems fast
PAUSE_S = 0.01  # before calls on a host of which every core is slower
WATCHED_S = 2.0  # how long its pace is looked at where nothing is known of it
KEPT_FOR = 9  # times that its pace is looked at, before it counts as one that the host keeps


def lowest_tenth(in_order: list[float]) -> float:
    """What was kept for a tenth of the time that was looked at: the least of all is luck."""
    return in_order[len(in_order) // 10]


def benchmark_us() -> float:
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
        return min(benchmark_us() for _ in range(3))

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
    import torch

    return Known(torch.nn.Sequential(*[torch.nn.ReLU() for _ in range(5)]), torch.zeros(1, device=device))


def known_replay(device: torch.device) -> Known:
    """One small kernel as a CUDA graph behind a module, whose output is a new tensor in each call."""
    import torch

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
        """Its best, as anybody saw it."""
        return min(self.known_us or self.best_us(), self.best_us())

    def go_on(self, host_bound: bool) -> None:
        """Before calls, whose time is the host's for a part or not: to a core that is fast, after a pause where that
        does not help."""
        if self.device.type != "cuda":
            return
        stuck = host_bound and self.slow_times >= SLOW_TIMES
        if stuck:
            self.slow_times = 0
        if (not self.cores.go_to_a_fast_one(leave=stuck) or stuck) and host_bound:
            time.sleep(PAUSE_S)
