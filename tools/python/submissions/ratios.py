"""Speedups of paired calls, and how sure they are."""

from __future__ import annotations

import random
import statistics

RESAMPLINGS = 1000
LATE_SHARE, LATE_US = 0.05, 20.0


def late_us(own_ns: list[int], own_late_ns: list[int], eager_late_ns: list[int]) -> float:
    """By how much longer than behind eager's answers to the same draws the device is busy behind these, where all of a
    95% interval of it is more than a twentieth of a burst; else 0: the device's turns between processes differ by as
    much, too."""
    more = sorted((own - eager) / 1000 for own, eager in zip(own_late_ns, eager_late_ns))
    if not more:
        return 0.0
    numbers = random.Random(1)
    medians = sorted(statistics.median(numbers.choices(more, k=len(more))) for _ in range(RESAMPLINGS))
    least = medians[int(0.025 * RESAMPLINGS)]
    return statistics.median(more) if least > max(LATE_US, LATE_SHARE * statistics.median(own_ns) / 1000) else 0.0


def interval_of(pools: list[list[float]]) -> tuple[float, float, float]:
    """The median ratio with its bootstrap 95% interval, of a two-level model: each pool has a bias, each pair noise."""
    numbers = random.Random(1)
    pools = [p for p in pools if p]
    if not pools:
        return 0.0, 0.0, 0.0
    medians = []
    for _ in range(RESAMPLINGS):
        taken: list[float] = []
        for pool in numbers.choices(pools, k=len(pools)):
            taken += numbers.choices(pool, k=len(pool))
        medians.append(statistics.median(taken))
    medians.sort()
    return (statistics.median([r for p in pools for r in p]), medians[int(0.025 * RESAMPLINGS)],
            medians[int(0.975 * RESAMPLINGS) - 1])


def answers_from_memory(first: list[int], again: list[int], eager_first: list[int], eager_again: list[int]) -> float:
    """How many times less repeated contents take of the processor, if every one of them is and eager's are not; else 0."""
    if len(first) < 3 or min(again + eager_again) <= 0 or max(again) * 1.5 > min(first):
        return 0.0
    gain = statistics.median(first) / statistics.median(again)
    eager_gain = statistics.median(eager_first) / statistics.median(eager_again)
    return gain if gain > 2 and gain > 1.5 * eager_gain else 0.0


def slow_beginning(ratios: list[float]) -> float:
    """How many times slower than later the calls of a worker were for a while after its warm-up; 0: they were not. Of
    the pairs of an early and a late call a few may be otherwise: something else runs on the machine, too."""
    least, most_exceptions = 3, 0.1
    for at in range(least, len(ratios) - least + 1):
        early, late = ratios[:at], ratios[at:]
        slower = statistics.median(late) / statistics.median(early)
        exceptions = sum(b < 1.5 * a for a in early for b in late)
        if slower > 3 and exceptions <= most_exceptions * len(early) * len(late):
            return slower
    return 0.0
