"""Tests tools/python/host_pace.py and measuring.py: which calls count on a host whose speed changes."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import threading
import types
import unittest
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "python"))

import core_turns  # noqa: E402
import host_pace  # noqa: E402
import measuring  # noqa: E402
import pytorch_calls  # noqa: E402
from host_pace import Cores, Pace  # noqa: E402
from measuring import count_rows, enough  # noqa: E402
from pytorch_calls import Calls, Row  # noqa: E402

GPU = types.SimpleNamespace(type="cuda")
REQUEST = {"least_samples": 10, "seconds": 1.0}


def pace_that_saw(best: float, known: float = 0.0) -> Pace:
    pace = Pace(GPU, known)
    for _ in range(host_pace.KEPT_FOR):
        pace.note(best)
    return pace


def calls_of(*rows: Row) -> Calls:
    calls = Calls("eager", types.SimpleNamespace(device=GPU))
    calls.rows = list(rows)
    calls.device_us = [20.0] * 50
    return calls


def row(us: float, pace_us: float) -> Row:
    return Row([us] * 8, pace_us, pace_us / 4)


class Counting(unittest.TestCase):
    def test_rows_of_a_slow_host_do_not_count(self) -> None:
        calls = calls_of(row(60, 15), row(40, 10), row(41, 11), row(55, 14))
        count_rows(calls, pace_that_saw(10), least=10)
        self.assertEqual(calls.call_us, [40] * 8 + [41] * 8)
        self.assertEqual(calls.pace_us, 10.5)
        self.assertEqual(calls.python_us, 10.5 / 4)
        self.assertEqual(calls.dropped_calls, 16)
        self.assertEqual(calls.notes, [])

    def test_device_bound_calls_count_at_any_pace(self) -> None:
        calls = calls_of(row(1_020, 15), row(1_021, 10))
        calls.device_us = [1_000.0] * 50
        count_rows(calls, pace_that_saw(10), least=10)
        self.assertEqual(calls.call_us, [1_020] * 8 + [1_021] * 8)
        self.assertEqual(calls.notes, [])
        slow = calls_of(*[row(1_020, 15)] * 20)
        slow.device_us = [1_000.0] * 50
        self.assertTrue(enough(slow, pace_that_saw(10), 0.1, REQUEST), "does not wait for a faster host")

    def test_short_fast_moments_are_not_the_best_pace(self) -> None:
        pace = Pace(GPU)
        self.assertEqual(pace.best_us(), 0)
        for us in (5, 10, 11, 5, 10, 12, 10, 5, 10):
            pace.note(us)
        self.assertEqual(pace.best_us(), 10)
        for us in (20,) * 7 * host_pace.KEPT_FOR + (8,) * host_pace.KEPT_FOR:
            pace.note(us)
        self.assertEqual(pace.best_us(), 8, "a pace that lasted")
        for us in (20,) * 20 * host_pace.KEPT_FOR:
            pace.note(us)
        self.assertEqual(pace.best_us(), 20, "the fast pace did not last long enough")

    def test_a_known_pace_that_is_not_reached_is_noted(self) -> None:
        calls = calls_of(row(60, 15), row(40, 12), row(41, 12))
        count_rows(calls, pace_that_saw(12, known=9), least=10)
        self.assertEqual(calls.call_us, [40] * 8 + [41] * 8, "the best that was seen here")
        self.assertEqual(calls.notes, ["the host was 1.33 times slower than at its best all the time"])

    def test_with_few_rows_the_fastest_count(self) -> None:
        calls = calls_of(row(60, 15), row(70, 17), row(80, 19))
        count_rows(calls, pace_that_saw(10), least=10)
        self.assertEqual(calls.call_us, [60] * 8 + [70] * 8)
        self.assertIn("times slower", calls.notes[0])

    def test_without_a_gpu_all_count(self) -> None:
        pace = Pace(types.SimpleNamespace(type="cpu"))
        self.assertEqual(pace.now_us(None), 0)
        calls = calls_of(row(60, 0), row(40, 0))
        count_rows(calls, pace, least=10)
        self.assertEqual(len(calls.call_us), 16)
        self.assertEqual(calls.pace_us, 0)


class Enough(unittest.TestCase):
    def test_it_waits_for_rows_that_count(self) -> None:
        pace = pace_that_saw(10)
        slow = calls_of(*[row(60, 15)] * 20)
        self.assertFalse(enough(slow, pace, 5.0, REQUEST), "no row counts")
        self.assertTrue(enough(slow, pace, measuring.MOST_TIMES * 1.0, REQUEST), "but not forever")
        self.assertTrue(enough(calls_of(*slow.rows, row(40, 10), row(41, 10)), pace, 5.0, REQUEST))

    def test_a_median_that_is_known_needs_no_more_time(self) -> None:
        pace = pace_that_saw(10)
        self.assertTrue(enough(calls_of(*[row(40, 10)] * 5), pace, 0.1, REQUEST))
        self.assertFalse(enough(calls_of(row(40, 10), row(80, 10), row(60, 10)), pace, 0.1, REQUEST))

    def test_the_number_of_samples_is_limited(self) -> None:
        many = [row(us, 10) for us in (40, 60)] * (measuring.MOST_SAMPLES // 16)
        self.assertFalse(enough(calls_of(*many[:-1]), pace_that_saw(10), 0.1, REQUEST))
        self.assertTrue(enough(calls_of(*many), pace_that_saw(10), 0.1, REQUEST))


class CoresOfSpeeds(Cores):
    """Cores whose work takes as long as the test sets."""

    def __init__(self, **took: float):
        super().__init__(int(core[1:]) for core in took)
        self.took = {int(core[1:]): us for core, us in took.items()}
        self.at = -1
        self.visits: list[int] = []

    def go(self, core: int) -> None:
        self.at = core
        self.visits.append(core)
        if self.took[core] < 0:
            raise OSError("not allowed")

    def work_us(self) -> float:
        return self.took[self.at]


class GoingOn(unittest.TestCase):
    def pace(self, **took: float) -> tuple[Pace, CoresOfSpeeds]:
        pace = pace_that_saw(10)
        pace.cores = cores = CoresOfSpeeds(**took)
        cores.move_to_a_fast_core()
        cores.visits.clear()
        return pace, cores

    def test_a_core_on_which_calls_are_slow_twice_is_left(self) -> None:
        pace, cores = self.pace(c0=10, c1=10)
        pace.note(13)
        pace.go_on(host_bound=True)
        self.assertEqual(cores.at, 0, "one slow row is no reason to move")
        pace.note(13)
        pace.go_on(host_bound=True)
        self.assertEqual(cores.at, 1)
        pace.note(13)
        pace.go_on(host_bound=True)
        self.assertEqual(cores.at, 1, "the next core gets two tries as well")

    def test_device_bound_calls_stay(self) -> None:
        pace, cores = self.pace(c0=10, c1=10)
        for _ in range(5):
            pace.note(13)
            pace.go_on(host_bound=False)
        self.assertEqual(set(cores.visits), {0})


class Measuring(unittest.TestCase):
    """The whole measurement on the CPU's clock, without torch."""

    class Subject:
        device = types.SimpleNamespace(type="cpu")
        turn = 0

        def next_draw(self) -> list:
            return []

    class Watched(Calls):
        def __init__(self, subject: Any, fails: bool = False):
            super().__init__("eager", subject)
            self.cores: set[int] = set()
            self.fails = fails

        def run(self, inputs: list) -> Any:
            self.cores |= os.sched_getaffinity(0)
            if self.fails:
                raise ValueError("it fails")

    class Clock(pytorch_calls.Clock):
        def __init__(self) -> None:
            self.device = types.SimpleNamespace(type="cpu")
            self.wait = lambda: None

        def flush(self) -> None:
            pass

    def test_runs_on_the_requested_cores_and_returns(self) -> None:
        before = os.sched_getaffinity(0)
        wanted = {max(before)}
        calls = self.Watched(self.Subject())
        measuring.measure(self.Clock(), Pace(self.Subject.device), calls,
                              {"seconds": 0.01, "least_samples": 3, "cores": sorted(wanted)})
        self.assertEqual(calls.cores, wanted)
        self.assertGreaterEqual(len(calls.call_us), 3)
        self.assertEqual(os.sched_getaffinity(0), before)

    def test_waits_for_what_a_node_times_on_its_cores(self) -> None:
        self.addCleanup(setattr, core_turns, "FOLDER", core_turns.FOLDER)
        with tempfile.TemporaryDirectory() as folder:
            core_turns.FOLDER = folder
            core = max(os.sched_getaffinity(0))
            calls = self.Watched(self.Subject())
            request = {"seconds": 0.01, "least_samples": 3, "cores": [core]}
            measuring_thread = threading.Thread(
                target=lambda: measuring.measure(self.Clock(), Pace(self.Subject.device), calls, request))
            of_node = core_turns.CoreTurns([core])
            with of_node:
                measuring_thread.start()
                measuring_thread.join(0.2)
                self.assertEqual(calls.call_us + calls.rows, [])
            measuring_thread.join(30)
            self.assertGreaterEqual(len(calls.call_us), 3)
            with of_node:  # it was given back
                pass

    def test_turns_are_those_of_nodes(self) -> None:
        sources = pathlib.Path(__file__).resolve().parents[2] / "sandbox" / "device"
        self.assertIn(f'default_folder = "{core_turns.FOLDER}"', (sources / "machine_claims.hpp").read_text())
        for name in ("queue-core-{}", "turn-core-{}"):
            self.assertIn(f'"{name}"', (sources / "core_turn.cpp").read_text())
            self.assertIn(name.format("{core}"), pathlib.Path(core_turns.__file__).read_text())

    def test_returns_after_a_failure_too(self) -> None:
        before = os.sched_getaffinity(0)
        with self.assertRaises(ValueError):
            measuring.measure(self.Clock(), Pace(self.Subject.device), self.Watched(self.Subject(), fails=True),
                                  {"seconds": 0.01, "least_samples": 3, "cores": [max(before)]})
        self.assertEqual(os.sched_getaffinity(0), before)


class Choosing(unittest.TestCase):
    def test_the_first_time_all_cores_are_tried(self) -> None:
        cores = CoresOfSpeeds(c4=16, c5=10, c6=10.5, c7=15)
        self.assertTrue(cores.move_to_a_fast_core())
        self.assertEqual(cores.at, 5)

    def test_it_stays_on_a_fast_core_and_tries_the_next_ones_otherwise(self) -> None:
        cores = CoresOfSpeeds(c4=16, c5=10, c6=15, c7=10.5)
        cores.move_to_a_fast_core()
        cores.visits.clear()
        self.assertTrue(cores.move_to_a_fast_core())
        self.assertEqual(set(cores.visits), {5})
        cores.took[5] = 16
        self.assertTrue(cores.move_to_a_fast_core())
        self.assertEqual(cores.at, 7)
        self.assertNotIn(4, cores.visits)

    def test_without_a_fast_core_it_takes_the_fastest_and_says_so(self) -> None:
        cores = CoresOfSpeeds(c0=10, c1=10)
        cores.move_to_a_fast_core()
        cores.took.update({0: 16, 1: 15})
        self.assertFalse(cores.move_to_a_fast_core())
        self.assertEqual(cores.at, 1)

    def test_a_slow_start_does_not_stay_the_best(self) -> None:
        cores = CoresOfSpeeds(c0=16, c1=16.1)
        cores.move_to_a_fast_core()
        cores.took[1] = 10
        for _ in range(host_pace.LOOK_EVERYWHERE_EVERY):
            cores.move_to_a_fast_core()
        self.assertEqual(cores.at, 1)

    def test_one_fast_moment_is_not_the_best(self) -> None:
        cores = CoresOfSpeeds(c0=10, c1=10)
        for _ in range(20):
            cores.move_to_a_fast_core()
        cores.took.update({0: 5, 1: 5})
        cores.move_to_a_fast_core()
        cores.took.update({0: 10, 1: 10})
        self.assertTrue(cores.move_to_a_fast_core())

    def test_a_core_with_slow_calls_is_left_although_its_work_is_fast(self) -> None:
        cores = CoresOfSpeeds(c0=10, c1=10.2)
        cores.move_to_a_fast_core()
        self.assertEqual(cores.at, 0)
        self.assertTrue(cores.move_to_a_fast_core(leave=True))
        self.assertEqual(cores.at, 1)

    def test_cores_that_are_not_allowed_are_dropped(self) -> None:
        cores = CoresOfSpeeds(c0=-1, c1=10)
        self.assertTrue(cores.move_to_a_fast_core())
        self.assertEqual((cores.at, cores.allowed), (1, [1]))
        self.assertTrue(Cores([]).move_to_a_fast_core(), "none to choose from")

    def test_the_same_cores_again_change_nothing(self) -> None:
        cores = CoresOfSpeeds(c0=16, c1=10)
        cores.move_to_a_fast_core()
        cores.use([0, 1])
        self.assertEqual(cores.allowed, [1, 0])
        cores.use([1, 2])
        self.assertEqual(cores.allowed, [1, 2])

    def test_real_cores(self) -> None:
        before = os.sched_getaffinity(0)
        try:
            Cores(before).move_to_a_fast_core()
            self.assertEqual(len(os.sched_getaffinity(0)), 1)
        finally:
            os.sched_setaffinity(0, before)


if __name__ == "__main__":
    unittest.main()
