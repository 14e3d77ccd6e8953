"""Takes as many calls of one kind as its median needs, with a Clock of pytorch_calls.py, while host_pace.py watches the
host's pace.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import time
from typing import Any

from core_turns import CoreTurns
from host_pace import SAME_PACE, Pace
from pytorch_calls import Calls, Clock, Row, samples_of

MOST_SAMPLES = 2000
IN_A_ROW = 8
LONG_US = 10_000.0  # a call that takes this long is a row of its own
MOST_TIMES = 20  # the most time until enough calls count, as a multiple of the requested seconds


def half_width(samples: list[float]) -> float:
    """Half of the 95% interval of the median, relative to it; from order statistics, so for any distribution."""
    n = len(samples)
    if n < 6:
        return math.inf
    ordered = sorted(samples)
    reach = 0.98 * math.sqrt(n)
    low = max(0, math.floor(n / 2 - reach))
    high = min(n - 1, math.ceil(n / 2 + reach))
    middle = statistics.median(ordered)
    return (ordered[high] - ordered[low]) / 2 / middle if middle > 0 else math.inf


def take_samples(clock: Clock, pace: Pace, calls: Calls) -> None:
    """Takes some samples with each clock. A short call is mostly host time, and the host is faster at what it has just
    done: such calls are made in a row, and the first is not counted. So every kind is measured at its best, as in the
    loop of a benchmark."""

    def all_of_them() -> None:
        pace.go_on(host_bound=not calls.counting_rows(0.0))
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


def enough(calls: Calls, pace: Pace, spent_s: float, request: dict) -> bool:
    taken = sum(len(row.call_us) for row in calls.rows)
    counted = samples_of(calls.counting_rows(SAME_PACE * pace.wanted_us()))
    if len(counted) < request["least_samples"]:
        return taken >= 3 and spent_s >= MOST_TIMES * request["seconds"]  # very long calls, or a slow host
    if len(counted) >= MOST_SAMPLES or spent_s >= request["seconds"]:
        return True
    on_device = calls.subject.device.type == "cuda"
    return half_width(counted) <= 0.01 and (not on_device or half_width(calls.device_us) <= 0.01)


def count_rows(calls: Calls, pace: Pace, least: int) -> None:
    """Counts the rows in which the host was at its best; if they are too few, at the best seen here, or the fastest."""
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
        calls.notes.append(f"the host was {slower:.2f} times slower than at its best all the time")


def measure(clock: Clock, pace: Pace, calls: Calls, request: dict) -> None:
    """Measures until the calls' median is known well enough or their time is over. Does not alternate with other calls,
    which would leave their own code and data in the caches. Uses request["cores"], or all that this thread may use if
    there are none; for calls on a GPU, one of them at a time. Calls on request["cores"] of the CPU take turns with what
    nodes of this machine time there."""
    spent = 0.0
    before = os.sched_getaffinity(0)
    cores = request["cores"] or before
    turns = CoreTurns(request["cores"] if clock.device.type == "cpu" else [])
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
            with turns:
                begin = time.perf_counter()
                take_samples(clock, pace, calls)
                spent += time.perf_counter() - begin
    finally:
        turns.close()
        gc.enable()
        use_cores(before)
    count_rows(calls, pace, request["least_samples"])


def use_cores(cores: Any) -> None:
    """Lets the calling thread run on all of these."""
    try:
        os.sched_setaffinity(0, cores)
    except OSError:  # a container that allows fewer
        pass
