#!/usr/bin/env python3
"""What exported files quote and how they are judged: quote_source.py and evaluate_file.py, without a build.

    export_test.py
"""

import argparse
import contextlib
import fcntl
import multiprocessing
import pathlib
import sys
import tempfile
import textwrap
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/python"), str(ROOT / "tools/kernelbench/runtime")]

import evaluate_file  # noqa: E402
from quote_source import broken_rules, quoted  # noqa: E402

PROBLEM = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super(Model, self).__init__()
        self.scale = torch.nn.Parameter(torch.rand(8))

    def forward(self, x):
        return x * self.scale

def get_inputs():
    return [torch.rand(4, 8)]

def get_init_inputs():
    return []
"""


def exported(forward: str, more: str = "") -> str:
    return PROBLEM + textwrap.dedent(f"""
        class ModelNew(Model):
            {more or '...'}

            def forward(self, x):
                {forward}

            def kernel_notes(self):
                return []
        """)


def judged(forward: str, more: str = "", problem: str = PROBLEM, cast: bool = True) -> dict:
    new = exported(forward, more) if problem is PROBLEM else problem + forward
    options = argparse.Namespace()
    with torch.no_grad():
        sides, notes = evaluate_file.sides_of(problem, new, torch.device("cpu"), cast, evaluate_file.Turns())
        return evaluate_file.evaluate(sides, notes, options)


class Quoting(unittest.TestCase):
    def test_words_that_the_checker_refuses_go_with_comments_and_docstrings(self):
        source = textwrap.dedent('''
            """The forward pass. try: nothing"""
            from __future__ import annotations
            # import threading
            class Base(object):
                pass  # pass
            class Model(Base):
                """
                # pass
                """
                def forward(self, x):
                    "pass"
                    return x  # the pass
            if True: pass
            ''')
        text = quoted(source)
        self.assertNotEqual(broken_rules(source), [])
        self.assertEqual(broken_rules(text), [])
        space: dict = {}
        exec(text, space)
        self.assertEqual(space["Model"]().forward(3), 3)

    def test_strings_that_mean_something_stay(self):
        source = 'x = "# pass"\ny = f"{x}" "é"  # é\n'
        space: dict = {}
        exec(quoted(source), space)
        self.assertEqual((space["x"], space["y"]), ("# pass", "# passé"))
        self.assertEqual(broken_rules('x = "pass"\n'), ["it has the word `pass`"])

    def test_what_cannot_be_removed_is_named(self):
        source = "try:\n    import torch\nexcept ImportError:\n    torch = None\n"
        self.assertEqual(broken_rules(quoted(source)), ["it has try/except"])


class Judging(unittest.TestCase):
    def test_a_right_module(self):
        result = judged("return self.scale * x")
        self.assertEqual((result["problem"], result["strict"], result["passed_draws"]), ("", True, 5))

    def test_a_module_off_by_more_than_1e_4(self):
        result = judged("return self.scale * x + 3e-4")
        self.assertIn("in 5 of 5 draws", result["problem"])
        self.assertFalse(result["strict"])

    def test_outputs_in_other_containers(self):
        for result in ("[x * self.scale]", "(x * self.scale,)", "{'y': x * self.scale}"):
            self.assertIn("and the problem Tensor", judged(f"return {result}")["problem"])
        problem = PROBLEM.replace("return x * self.scale", "return {'y': [x * self.scale, None], 'z': x}")
        new = "\nclass ModelNew(Model):\n    def kernel_notes(self):\n        return []\n"
        self.assertEqual(judged(new, problem=problem)["problem"], "")
        new += "    def forward(self, x):\n        y = super().forward(x)\n        return {'y': y['y'][0], 'z': x}\n"
        self.assertEqual(judged(new, problem=problem)["problem"], "it returns dict('y': Tensor, 'z': Tensor), and the "
                         "problem dict('y': list(Tensor, None), 'z': Tensor)")

    def test_dataclasses_in_and_out(self):
        problem = """
import dataclasses
import torch

@dataclasses.dataclass
class Pair:
    a: torch.Tensor
    b: torch.Tensor

class Model(torch.nn.Module):
    def forward(self, p):
        return Pair(p.a + p.b, p.a)

def get_inputs():
    return [Pair(torch.rand(4), torch.rand(4))]

def get_init_inputs():
    return []
"""
        new = "\nclass ModelNew(Model):\n    def kernel_notes(self):\n        return []\n    {}\n"
        self.assertEqual(judged(new.format(""), problem=problem)["problem"], "")
        wrong = judged(new.format("def forward(self, p): return Pair(p.a + p.b + 1, p.a)"), problem=problem)
        self.assertIn("in 5 of 5 draws", wrong["problem"])

    def test_parameters_that_are_made_in_another_order_of_random_numbers(self):
        result = judged("return x * self.scale", "def __init__(self): torch.rand(1); super().__init__()")
        self.assertIn("draws", result["problem"])

    def test_an_output_that_later_calls_overwrite(self):
        result = judged("self.__dict__.setdefault('kept', torch.empty(4, 8)).copy_(x * self.scale)\n"
                        "                return self.kept")
        self.assertEqual(result["passed_draws"], 5)
        self.assertIn("calls in a row", result["problem"])

    def test_weights_that_are_kept_from_the_first_call(self):
        result = judged("return x * self.__dict__.setdefault('kept', self.scale.clone())")
        self.assertIn("with other weights", result["problem"])

    def test_buffers_that_every_seed_makes_the_same_are_constants_and_statistics_are_not(self):
        problem = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(8.0))
        self.register_buffer("drawn", torch.rand(8))
        self.register_buffer("running_mean", torch.ones(8))
        self.eval()

    def forward(self, x):
        return x + self.table * self.drawn - self.running_mean

def get_inputs():
    return [torch.rand(4, 8)]

def get_init_inputs():
    return []
"""
        new = """
class ModelNew(Model):
    def forward(self, x):
        return x + {} * {} - {}

    def kernel_notes(self):
        return []
"""
        right = judged(new.format("torch.arange(8.0)", "self.drawn", "self.running_mean"), problem=problem)
        self.assertEqual(right["problem"], "")
        for drawn, mean in (("self.__dict__.setdefault('old', self.drawn.clone())", "self.running_mean"),
                            ("self.drawn", "1")):
            wrong = judged(new.format("self.table", drawn, mean), problem=problem)
            self.assertIn("with other weights", wrong["problem"])

    def test_a_task_whose_eager_is_ill_conditioned(self):
        # Sums that cancel: their rounding, which depends on the order of the rows, is divided by nearly nothing.
        problem = textwrap.dedent("""
            import torch

            class Model(torch.nn.Module):
                def forward(self, x):
                    return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-14).sqrt()

            def get_inputs():
                return [torch.rand(3, 1) * 1e-6 + torch.rand(1, 64) + 1]

            def get_init_inputs():
                return []
            """)
        new = textwrap.dedent("""
            class ModelNew(Model):
                def kernel_notes(self):
                    return []
            """)
        result = judged(new, problem=problem)
        self.assertIn("reverse order of the batch", result["ill_conditioned"])
        self.assertGreater(result["tolerance_factor"], 1)
        self.assertEqual(result["problem"], "")

    def test_an_order_that_means_something_is_no_noise(self):
        problem = PROBLEM.replace("return x * self.scale", "return x.cumsum(0)")
        result = judged("\nclass ModelNew(Model):\n    def kernel_notes(self):\n        return []\n", problem=problem)
        self.assertEqual(result["ill_conditioned"], [])

    def test_inputs_are_cast_as_kernelbench_does_where_eager_takes_them_so(self):
        new = "\nclass ModelNew(Model):\n    def kernel_notes(self):\n        return []\n"
        inputs = "return [torch.rand(4, 8), torch.randint(0, 8, (4,))]"
        masked = PROBLEM.replace("return [torch.rand(4, 8)]", inputs).replace("(self, x)", "(self, x, m)").replace(
            "return x *", "assert m.dtype == torch.float32\n        return x *")
        self.assertEqual(judged(new, problem=masked)["notes"], [])
        indexed = PROBLEM.replace("return [torch.rand(4, 8)]", inputs).replace("(self, x)", "(self, x, m)").replace(
            "return x *", "return torch.nn.functional.cross_entropy(x, m) *")
        result = judged(new, problem=indexed)
        self.assertEqual(result["problem"], "")
        self.assertIn("eager itself fails with its inputs cast to float32", result["notes"][0])


def take_turn(path: pathlib.Path, kind: str, alone: bool, name: str, events, leave) -> None:
    turns = evaluate_file.Turns(path, 60.0)
    with getattr(turns, kind)(alone):
        with turns.step() if kind == "step" else contextlib.nullcontext():
            events.put(f"{name} begins")
            leave.wait()
    events.put(f"{name} ends")


class TakingTurns(unittest.TestCase):
    """Checks of several files on one device, each a process."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "turns"
        self.fork = multiprocessing.get_context("fork")
        self.events = self.fork.Queue()

    def started(self, kind: str, name: str, alone: bool = False):
        leave = self.fork.Event()
        process = self.fork.Process(target=take_turn, args=(self.path, kind, alone, name, self.events, leave),
                                    daemon=True)
        process.start()
        self.addCleanup(process.join)
        self.addCleanup(leave.set)
        return leave

    def wait_until_someone_wants_to_be_alone(self, kind: str):
        with open(f"{self.path}.{kind}.next", "ab") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return
                fcntl.flock(file, fcntl.LOCK_UN)

    def both(self) -> set[str]:
        return {self.events.get(), self.events.get()}

    def test_comparing_goes_on_beside_others(self):
        for kind in ("step", "whole"):
            first, second = self.started(kind, "first"), self.started(kind, "second")
            self.assertEqual(self.both(), {"first begins", "second begins"})
            first.set(), second.set()
            self.assertEqual(self.both(), {"first ends", "second ends"})

    def test_who_waits_to_be_alone_comes_before_who_begins(self):
        for kind in ("step", "whole"):
            comparing = self.started(kind, "comparing")
            self.assertEqual(self.events.get(), "comparing begins")
            timing = self.started(kind, "timing", alone=True)
            self.wait_until_someone_wants_to_be_alone(kind)
            beginning = self.started(kind, "beginning")
            comparing.set()
            self.assertEqual(self.both(), {"comparing ends", "timing begins"})
            self.assertTrue(self.events.empty())
            timing.set()
            self.assertEqual(self.both(), {"timing ends", "beginning begins"})
            beginning.set()
            self.assertEqual(self.events.get(), "beginning ends")

    def test_a_check_that_is_alone_takes_its_steps(self):
        turns = evaluate_file.Turns(self.path, 60.0)
        with turns.whole(alone=True), turns.step(alone=True), turns.step():
            self.assertGreater(turns.left_s, 0)

    def test_the_pace_is_kept_for_the_next_check(self):
        turns = evaluate_file.Turns(self.path, 60.0)
        self.assertEqual(turns.known_pace_us(), 0.0)
        for pace_us in (30.0, 20.0, 25.0, 0.0):
            turns.keep_pace_us(pace_us)
        self.assertEqual(evaluate_file.Turns(self.path, 60.0).known_pace_us(), 20.0)
        self.assertEqual(evaluate_file.Turns().known_pace_us(), 0.0)


if __name__ == "__main__":
    unittest.main()
