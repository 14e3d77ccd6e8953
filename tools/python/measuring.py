"""As many calls of one kind as its median needs: with a Clock of pytorch_calls.py, on a host whose pace host_pace.py
watches.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import time
from typing import Any

from host_pace import SAME_PACE, Pace
from pytorch_calls import Calls, Clock, Row, samples_of

MOST_SAMPLES = 2000
IN_A_ROW = 8
LONG_US = 10_000.0  # a call that takes so long is a row by itself
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


def take_samples(clock: Clock, pace: Pace, calls: Calls) -> None:
    """Some by each clock. A short call is mostly the host's, which is faster at what it did just before: such calls
    come in a row, and the first is not counted. So everything is seen at its best, as in a loop of a benchmark."""

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
