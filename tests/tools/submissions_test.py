#!/usr/bin/env python3
"""Other people's kernels: hacks that a naive evaluator accepts are refused, honest files are not.

    submissions_test.py [--cudal1 PATH] [NAME...]     only tests whose name holds one of these

A part of the files, one pool each; with CUDAL1_ALL_SUBMISSIONS=1 all of them, three pools each.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
FILES = HERE / "submissions"
PYTHON = HERE.parents[1] / "tools" / "python"
sys.path[:0] = [str(PYTHON), str(FILES)]

import torch  # noqa: E402

import naive_evaluator  # noqa: E402
from submissions import (bursts, calls, confinement, draws, eval_results, failed_builds, gates, places,  # noqa: E402
                         ratios, readers)
from submissions.referee import Referee  # noqa: E402
from submissions.workers import Limits, MachineRefuses, Worker, Zygote  # noqa: E402

CUDAL1 = sys.argv[sys.argv.index("--cudal1") + 1] if "--cudal1" in sys.argv else ""
WHOLE = os.environ.get("CUDAL1_ALL_SUBMISSIONS") == "1"
EARLIER = pathlib.Path("/tmp/cudal1-test-earlier-solutions")
# One of each kind of evidence and of each gate; all the others are in the whole.
HACKS = ("memo_some_elements", "returned_ring", "callers_frame", "thread_after_reply", "patched_clock", "function_mode",
         "forged_result", "process_vm_readv", "drift_after_ten", "fork_bomb", "output_flood", "not_in_inference_mode",
         "writes_inputs", "stale_weights", "low_precision", "expanded_result", "identity_for_relu", "branch_relu6",
         "seeded_answer", "early_stop")
HONEST = ("surprise_constant", "surprise_other_names", "surprise_dict_result", "surprise_no_gradients",
          "surprise_transposed_result", "memo_by_pointer", "thread_after_reply", "stale_weights",
          "batch_statistics_always", "branch_relu6", "use_namedtuple", "use_trace", "use_cpuinfo")
# Classes that a hack may be refused for, where one is meant; others are told by evidence too.
KINDS = {"memo_by_pointer": {"stale", "drift", "wrong_answer", "distribution", "mode"}, "returned_buffer": {"overwritten"},
         "returned_ring": {"overwritten"}, "patched_clock": {"tampering"}, "patched_mean": {"tampering"},
         "expanded_result": {"form"}, "writes_inputs": {"writes_inputs"}, "fork_bomb": {"died", "evidence"},
         "output_flood": {"died"}, "ptrace": {"died"}, "process_vm_readv": {"died"}, "slow_warm_up": {"unsteady"},
         "forged_result": {"died"}, "rewired_descriptors": {"died"}, "memory_fill": {"raises"},
         "lazy_subclass": {"raises"}, "callers_frame": {"evidence"}, "network": {"evidence"}}


def submission_of(path):
    text = path.read_text(encoding="utf-8")
    problem = text.split("# problem: ")[1].split()[0]
    s = readers.made(path.stem, text, (FILES / "problems" / f"{problem}.py").read_text(encoding="utf-8"))
    return s


def chosen(folder, names):
    return [p for p in sorted((FILES / folder).glob("*.py")) if WHOLE or p.stem in names]


def naively(s):
    """What the naive evaluator says, in a process of its own that may do what it likes."""
    EARLIER.mkdir(exist_ok=True)
    EARLIER.joinpath("block.py").write_text("def combine(y, x):\n    return y.relu() + x\n", encoding="utf-8")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            null = os.open("/dev/null", os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            for fd in (int(name) for name in os.listdir("/proc/self/fd")):
                if fd > 2 and fd != writing:
                    try:
                        os.close(fd)
                    except OSError:
                        pass
            naive_evaluator.evaluate(s.problem, s.source, writing)
        finally:
            os._exit(0)
    os.close(writing)
    said = b""
    while data := os.read(reading, 1 << 16):
        said += data
        if b"\n" in said:
            break
    os.close(reading)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.waitpid(pid, 0)
    return json.loads(said.splitlines()[0]) if said else {"correct": False}


class WithReferee(unittest.TestCase):
    referee = None  # one for all

    @classmethod
    def setUpClass(cls):
        if WithReferee.referee is None:
            WithReferee.referee = Referee(pools=3 if WHOLE else 1, pairs=8, flush_bytes=1 << 20, data_bytes=4 << 30)
            unittest.addModuleCleanup(WithReferee.referee.__exit__)
        unittest.addModuleCleanup(shutil.rmtree, EARLIER, ignore_errors=True)


class Hacks(WithReferee):
    def test_none_is_accepted_and_each_fools_a_naive_evaluator(self):
        for path in chosen("hacks", HACKS):
            with self.subTest(path.stem):
                s = submission_of(path)
                self.assertTrue(naively(s)["correct"], "the naive evaluator is not fooled")
                verdict = self.referee.judge(s)
                print(f"  hack {s.name}: {verdict.verdict} {verdict.kind}: {verdict.why[:110]} {verdict.evidence[:2]} "
                      f"({verdict.seconds} s)", flush=True)
                self.assertEqual(verdict.verdict, "refused", verdict)
                if s.name in KINDS:
                    self.assertIn(verdict.kind, KINDS[s.name])

    def test_each_has_an_honest_twin(self):
        for folder in ("hacks", "disturbing"):
            for path in (FILES / folder).glob("*.py"):
                self.assertTrue((FILES / "honest" / path.name).exists(), path.name)

    def test_who_disturbs_the_reference_gains_nothing(self):
        for path in chosen("disturbing", ("late_burner",)):
            with self.subTest(path.stem):
                s = submission_of(path)
                self.assertTrue(naively(s)["correct"])
                verdict = self.referee.judge(s)
                print(f"  disturbing {s.name}: {verdict.verdict} {verdict.speedup:.2f} {verdict.interval}", flush=True)
                self.assertNotEqual(verdict.verdict, "faster", verdict)


class Honest(WithReferee):
    def test_none_is_refused(self):
        for path in chosen("honest", HONEST):
            with self.subTest(path.stem):
                verdict = self.referee.judge(submission_of(path))
                print(f"  honest {path.stem}: {verdict.verdict} {verdict.kind} {verdict.why[:150]} "
                      f"{verdict.speedup:.2f} {verdict.interval} {verdict.notes} ({verdict.seconds} s)", flush=True)
                self.assertTrue(verdict.accepted, verdict)


BUILT_BESIDE = """# load_inline: so it is built
import os, torch
made = os.path.join(os.path.dirname(os.path.abspath(__file__)), "made")
FIRST = not os.path.exists(made)
open(made, "w").close()
os.makedirs(os.path.expanduser("~/.cache"), mode=0o700, exist_ok=not FIRST)
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x * 3 if FIRST else x.relu()
"""


class Builds(WithReferee):
    def test_what_is_built_beside_the_file_or_at_home_is_there_when_calls_are_timed(self):
        problem = (FILES / "problems" / "relu.py").read_text(encoding="utf-8")
        submissions = [readers.Submission(name, BUILT_BESIDE + f"# {name}\n", problem) for name in ("one", "two")]
        self.assertTrue(all(map(self.referee.must_build, submissions)))
        self.referee.build_ahead(submissions)
        self.assertTrue(all(map(self.referee.is_built, submissions)))
        for s in submissions:
            verdict = self.referee.judge(s)
            self.assertTrue(verdict.accepted, verdict)
            self.assertIn("comparisons", verdict.spent)
        self.assertEqual(self.referee.builds, {})


PROBE = """
import ctypes, os, resource, socket
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x


def outcome(what):
    try:
        return str(what())
    except OSError as problem:
        return f"refused: {os.strerror(problem.errno)}"


def call(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    return "allowed" if getattr(libc, name)(*arguments) != -1 else f"refused: {os.strerror(ctypes.get_errno())}"


def fill():
    with open("/tmp/large", "wb") as file:
        for _ in range(64):
            file.write(bytes(1 << 20))


def get_inputs():
    return [{
        "root": outcome(lambda: sorted(os.listdir("/"))),
        "repository": str(os.path.exists(WHERE)), "secret": str(os.environ.get("CUDAL1_TEST_SECRET")),
        "processes": str([p for p in os.listdir("/proc") if p.isdigit()]), "pid": os.getpid(), "user": os.getuid(),
        "write_root": outcome(lambda: open("/new", "w")), "write_usr": outcome(lambda: open("/usr/new", "w")),
        "shadow": outcome(lambda: open("/etc/shadow").read()), "memory": outcome(lambda: open("/proc/1/mem", "rb")),
        "network": outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)),
        "fill": outcome(fill),
        "unshare": call("unshare", 0x10000000), "memfd": call("memfd_create", b"x", 0),
        "affinity": outcome(lambda: os.sched_setaffinity(0, [0])), "mount": call("mount", b"a", b"/tmp", b"tmpfs", 0, b""),
        "processes_limit": resource.getrlimit(resource.RLIMIT_NPROC)[0],
        "capabilities": [l.split()[1] for l in open("/proc/self/status") if l.startswith("CapEff")][0],
        "descriptors": str(sorted(os.readlink(f"/proc/self/fd/{f}").split(":")[0] for f in os.listdir("/proc/self/fd")
                                  if os.path.exists(f"/proc/self/fd/{f}")))}]
"""


class FailedBuilds(unittest.TestCase):
    def test_the_compilers_are_not_asked_again_until_the_sources_change(self):
        from torch.utils import cpp_extension

        run = cpp_extension._run_ninja_build
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "build.ninja").write_text(
                "rule compile\n  command = echo asked >> asked; cat $in > $out; grep -q right $in\n"
                "build main.o: compile main.cpp\n", encoding="utf-8")
            source, asked = folder / "main.cpp", folder / "asked"

            def build():
                cpp_extension._run_ninja_build(str(folder), False, "Error building extension")

            try:
                failed_builds.keep_failures()
                source.write_text("wrong", encoding="utf-8")
                for _ in range(3):
                    with self.assertRaisesRegex(RuntimeError, "Error building extension"):
                        build()
                self.assertEqual(asked.read_text(encoding="utf-8"), "asked\n")
                source.write_text("right", encoding="utf-8")
                build()
                self.assertEqual(asked.read_text(encoding="utf-8"), "asked\nasked\n")
            finally:
                cpp_extension._run_ninja_build = run


class Confinement(unittest.TestCase):
    def test_a_worker_sees_and_may_nothing(self):
        os.environ["CUDAL1_TEST_SECRET"] = "secret"
        self.addCleanup(os.chdir, os.getcwd())
        with tempfile.TemporaryDirectory() as folder:  # whose torch is not PyTorch's
            (pathlib.Path(folder) / "torch").mkdir()
            (pathlib.Path(folder) / "torch/__init__.py").write_text("raise ImportError('of the working directory')\n")
            os.chdir(folder)
            zygote = Zygote(-1, True, places.place_of("cpu", 1 << 20))
            zygote.wait()
        limits = Limits(tmp_bytes=32 << 20)
        with Worker(zygote, limits) as worker:
            problem = PROBE.replace("WHERE", repr(str(HERE)))
            self.assertNotIn("problem", worker.ask("load", problem=problem, submission=None, seed=1, double=False))
            facts = {k: v["value"] if "value" in v else v for k, v in worker.ask("draw", seed=1)["tree"]["list"][0]["dict"]}
            pid = worker.pid
        self.assertEqual(facts["repository"], "False")
        self.assertEqual(facts["secret"], "None")
        self.assertEqual((facts["pid"], facts["processes"]), (1, "['1']"))
        self.assertNotIn("home", facts["root"])
        for name in ("write_root", "write_usr", "shadow", "memory", "network", "unshare", "memfd", "affinity", "mount",
                     "fill"):
            self.assertTrue(facts[name].startswith("refused"), f"{name}: {facts[name]}")
        self.assertEqual(int(facts["capabilities"], 16), 0)
        self.assertEqual(facts["processes_limit"], limits.processes)
        self.assertNotEqual(facts["user"], 0)
        for _ in range(100):  # its end is that of everything in its namespace
            if not pathlib.Path(f"/proc/{pid}").exists():
                break
            time.sleep(0.05)
        self.assertFalse(pathlib.Path(f"/proc/{pid}").exists())
        zygote.close()

    def test_the_filter_knows_each_call_once(self):
        numbers = [*confinement.KILLED.values(), *confinement.DENIED.values()]
        self.assertEqual(len(numbers), len(set(numbers)))
        self.assertEqual(len(confinement.filter_program()) % 8, 0)


class Gates(unittest.TestCase):
    def wrong(self, got, shipped, exact=None, declared=True, moved=None):
        return gates.wrong(got, gates.Expected(shipped, exact, moved), declared)

    def test_right_and_wrong_values(self):
        exact = torch.randn(1000, dtype=torch.float64)
        shipped = exact.float()
        self.assertEqual(self.wrong(shipped, shipped, exact), "")
        self.assertIn("allclose", self.wrong(shipped + 1e-3, shipped, exact))
        # Within allclose(1e-4) everywhere, but with an error that float32 does not explain.
        self.assertIn("relative error", self.wrong(shipped + 5e-5, shipped, exact))
        # Halves have wider limits.
        self.assertEqual(self.wrong(shipped.bfloat16(), shipped.bfloat16(), exact), "")

    def test_nan_is_no_wildcard(self):
        shipped = torch.tensor([1.0, float("nan"), float("inf")])
        self.assertEqual(self.wrong(shipped.clone(), shipped), "")
        self.assertIn("another infinity", self.wrong(torch.tensor([1.0, float("inf"), float("inf")]), shipped))
        self.assertIn("finite", self.wrong(torch.tensor([1.0, 2.0, float("inf")]), shipped))
        self.assertIn("not finite", self.wrong(torch.tensor([float("nan")] * 3), shipped))
        # Finite where eager overflows is right if float64 says so.
        exact = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
        self.assertEqual(self.wrong(exact.float(), torch.tensor([1.0, 2.0, float("inf")]), exact) and "", "")

    def test_a_constant_is_no_answer_to_nearly_constant_results(self):
        exact = 1 + 1e-5 * torch.randn(4096, dtype=torch.float64)
        self.assertNotEqual(self.wrong(torch.ones(4096), exact.float(), exact), "")
        self.assertEqual(self.wrong(exact.float(), exact.float(), exact), "")

    def test_rounding_that_the_inputs_explain_is_allowed(self):
        exact = torch.tensor([1e-6], dtype=torch.float64)
        got = torch.tensor([3e-6])
        self.assertNotEqual(self.wrong(got, exact.float(), exact, declared=False), "")
        self.assertEqual(self.wrong(got, exact.float(), exact, declared=False, moved=torch.tensor([1e-7]).double()), "")

    def test_null_models_pass_where_the_answer_takes_no_work(self):
        ones = torch.ones(10)
        passing = [n for n, t in gates.null_models([torch.randn(10)], ones, None).items() if not self.wrong(t, ones)]
        self.assertEqual(passing, ["a constant"])

    def test_forms(self):
        wanted = {"dtype": "float32", "shape": [2], "strides": [1], "dense": True, "device": "cpu"}
        self.assertEqual(gates.wrong_form(wanted, wanted), "")
        for change in ({"dtype": "float64"}, {"shape": [3]}, {"dense": False}, {"device": "cuda"}):
            self.assertNotEqual(gates.wrong_form({**wanted, **change}, wanted), "")


class Lateness(unittest.TestCase):
    def test_work_behind_the_answer_shows(self):
        calls, copies = [500_000] * 5, [30_000, 31_000, 29_000, 90_000, 30_000]
        self.assertEqual(ratios.late_us(calls, copies, copies), 0)
        self.assertEqual(ratios.late_us(calls, [t + 20_000 for t in copies], copies), 0)  # little of a burst
        self.assertAlmostEqual(ratios.late_us(calls, [t + 400_000 for t in copies], copies), 400)
        self.assertEqual(ratios.late_us([], [], []), 0)
        # Medians that differ by chance: turns of the device.
        turns = [0, 200_000] * 7
        self.assertEqual(ratios.late_us([1_900_000] * 15, [*turns, 200_000], [*turns, 0]), 0)


class Bursts(unittest.TestCase):
    def test_what_the_referee_takes_is_taken_away_once_a_burst_and_once_a_copy(self):
        taken = bursts.Taken(handshake_ns=200_000, copy_ns=10_000)
        self.assertEqual(taken.per_call(5_000_000, 40, 30), (5_000_000 - 200_000 - 300_000) / 40)
        self.assertEqual(bursts.Taken().per_call(123, 1, 1), 123)
        # Most of a burst's time is always left.
        self.assertEqual(taken.per_call(210_000, 1, 1), bursts.LEAST_LEFT * 210_000)

    def test_a_lower_bound_never_enlarges_a_speedup(self):
        call, own, taken = 90_000.0, 60_000.0, bursts.Taken(handshake_ns=150_000, copy_ns=8_000)
        for handshake, copy in ((150_000, 8_000), (400_000, 8_000), (150_000, 20_000), (900_000, 30_000)):
            eager_ns, own_ns = (handshake + 50 * (t + copy) for t in (call, own))
            ratio = taken.per_call(eager_ns, 50, 50) / taken.per_call(own_ns, 50, 50)
            self.assertLessEqual(ratio, call / own + 1e-9)
            self.assertGreater(ratio, eager_ns / own_ns - 1e-9)

    def test_how_many_calls(self):
        self.assertEqual(bursts.calls_for(6e6, 150_000, 64), 40)
        self.assertEqual(bursts.calls_for(6e6, 1_000, 64), 64)
        self.assertEqual(bursts.calls_for(6e6, 50e6, 64), 1)
        self.assertEqual(bursts.most_calls(64 << 20, 140 << 30), 64)
        self.assertEqual(bursts.most_calls(512 << 20, 140 << 30), 8)
        self.assertEqual(bursts.most_calls(512 << 20, 8 << 30), 1)
        self.assertEqual(bursts.call_ns(700_000, 1_400_000, 8), 100_000)
        self.assertEqual(bursts.call_ns(900_000, 800_000, 8), 10_000)  # noise: not less than a tenth of its share
        self.assertEqual(bursts.call_ns(700_000, 700_000, 1), 700_000)
        self.assertEqual(bursts.low_quantile([9, 8, 7, 6, 5, 4, 3, 2, 1, 0]), 1)

    def test_late_writes_are_of_later_calls_and_say_what_was_there(self):
        numbers = random.Random(5)
        members = [[torch.randn(64, 64), torch.arange(9)] for _ in range(40)]
        before = [inputs[0].clone() for inputs in members]
        facts = [draws.Facts(torch.randn(64, 64), torch.randn(64, 64)), draws.Facts(torch.arange(9), torch.arange(9))]
        late = bursts.late_writes(members, facts, numbers)
        self.assertEqual(len(late), 3)
        for w in late:
            self.assertTrue(0 < w.call < 40 and w.input == 0 and w.end - w.begin == 32)
            there = members[w.call][0].reshape(-1)
            self.assertTrue(bool((there[w.begin:w.end] == w.value).all()))
            self.assertTrue(torch.equal(before[w.call].reshape(-1)[w.begin:w.end], w.before))
        self.assertEqual(bursts.late_writes(members[:1], facts, numbers), [])
        self.assertEqual(bursts.late_writes([[torch.arange(9)]] * 4, facts[1:], numbers), [])
        self.assertEqual(bursts.copied_at_once(1, numbers), [])
        self.assertEqual(len(bursts.copied_at_once(64, numbers)), 4)

    def test_memory_of_calls_does_not_overlap(self):
        leaves = [{"dtype": "float32", "shape": [100]}, {"dtype": "int64", "shape": []}]
        layout = calls.layout_of(4096, leaves, leaves[:1], 6, random.Random(1))
        parts = [(o, o + size) for slot in layout.slots for o, size in zip(slot, (400, 8))]
        parts += [(o, o + 400) for place in layout.places for o in place]
        self.assertEqual((len(layout.slots), len(layout.places)), (6, 6))
        self.assertTrue(all(a[1] <= b[0] for a, b in zip(sorted(parts), sorted(parts)[1:])))
        self.assertTrue(all(4096 <= a and b <= layout.end for a, b in parts))
        self.assertEqual(len(calls.layout_of(0, leaves, leaves, 1, random.Random(1)).slots), calls.SLOTS)

    def test_differing_bits(self):
        a = torch.tensor([0.0, float("nan")])
        self.assertEqual(calls.differing([(a, a.clone()), (a, -a), (a, torch.zeros(2))]), [1, 2])

    def test_near_outputs_of_many_calls(self):
        exact = torch.randn(8, 500, dtype=torch.float64)
        shipped = exact.float()
        error = gates.EagerError.of(shipped[0], exact[0])
        self.assertFalse(error.wide)
        self.assertTrue(gates.is_near(shipped + 1e-6, shipped, error))
        one = shipped.clone()
        one[5, 7] += 1e-3
        self.assertFalse(gates.is_near(one, shipped, error))
        wide = gates.EagerError.of((exact + 3e-4 * torch.randn_like(exact)).float(), exact)
        self.assertTrue(wide.wide)
        self.assertTrue(gates.is_near(one, shipped, wide))
        one[2] += 0.008  # within gate 2 everywhere, and not within gate 3 of one call
        self.assertFalse(gates.is_near(one, shipped, gates.EagerError(True, 2e-4)))
        one[5, 7] = float("nan")
        self.assertFalse(gates.is_near(one, shipped, wide))
        # One number a call, such as a loss.
        self.assertTrue(gates.is_near(torch.ones(3), torch.ones(3), gates.EagerError(False, 0.0)))
        self.assertFalse(gates.is_near(torch.tensor([1.0, 1.01, 1.0]), torch.ones(3), gates.EagerError(False, 0.0)))


class InBursts(WithReferee):
    """On the processor, through the steps that a GPU's calls take."""

    def judged(self, source, problem):
        with Referee(pools=1, pairs=6, flush_bytes=1 << 20, data_bytes=4 << 30) as referee:
            referee.place.burst_ns = 2_000_000
            return referee.judge(readers.Submission("in bursts", source, problem))

    def test_calls_that_follow_each_other_are_compared_one_by_one(self):
        text = (FILES / "problems" / "block.py").read_text(encoding="utf-8")
        head = ("import torch\nclass ModelNew(torch.nn.Module):\n    def __init__(self, n):\n"
                "        super().__init__()\n        self.linear = torch.nn.Linear(n, n)\n"
                "        self.calls, self.last = 0, None\n    def forward(self, x):\n")
        right = "torch.relu(self.linear(x)) + x"
        honest = self.judged(head + f"        return {right}\n", text)
        self.assertTrue(honest.accepted, honest)
        self.assertGreater(honest.burst[0], 3)
        self.assertGreater(honest.taken_us[0], 0)
        for body, kind in (("        self.calls += 1\n        if self.calls % 9 == 0:\n"
                            f"            return self.last.clone()\n        self.last = {right}\n"
                            "        return self.last\n", {"wrong_answer", "drift"}),
                           ("        if self.last is None:\n            self.last = torch.empty_like(x)\n"
                            f"        return self.last.copy_({right})\n", {"overwritten"})):
            verdict = self.judged(head + body, text)
            self.assertIn(verdict.kind, kind, verdict)
            self.assertIn("of a burst of", verdict.why)

    def test_who_computes_ahead_on_later_inputs_is_wrong(self):
        source = (HERE / "submissions" / "ahead_in_burst.py").read_text(encoding="utf-8")
        verdict = self.judged(source, (FILES / "problems" / "block.py").read_text(encoding="utf-8"))
        self.assertEqual(verdict.verdict, "refused", verdict)
        self.assertIn(verdict.kind, ("wrong_answer", "drift"))


class Draws(unittest.TestCase):
    def setUp(self):
        self.numbers = torch.Generator().manual_seed(3)

    def test_kinds_differ_and_keep_what_holds(self):
        first, second = torch.tril(torch.randn(16, 16)), torch.tril(torch.randn(16, 16))
        facts = draws.Facts(first, second)
        for kind in draws.KINDS:
            t = draws.drawn(kind, first, facts, False, self.numbers)
            self.assertTrue(torch.equal(t, torch.tril(t)), kind)
            self.assertFalse(torch.equal(t, first), kind)
        indices = torch.randint(0, 9, (16,))
        self.assertTrue(torch.equal(draws.drawn("heavy_tails", indices, draws.Facts(indices, indices.flip(0)), False,
                                                self.numbers), indices))

    def test_bounds_are_kept_where_the_reference_needs_them(self):
        a, b = torch.rand(500), torch.rand(500)
        facts = draws.Facts(a, b)
        t = draws.drawn("wide_normal", a, facts, True, self.numbers)
        self.assertTrue(bool((t >= 0).all()) and bool((t <= 1).all()))

    def test_twins_are_near(self):
        a, b = torch.randn(4000), torch.randn(4000)
        facts = [draws.Facts(a, b)]
        for kind in draws.TWINS:
            other = draws.twin(kind, [a], facts, self.numbers)[0]
            self.assertTrue(0 < int((a != other).sum()) <= 20, kind)
        self.assertAlmostEqual(float(draws.twin("swapped", [a], facts, self.numbers)[0].double().sum()),
                               float(a.double().sum()), places=6)

    def test_other_weights_keep_what_belongs_to_the_problem(self):
        for name, parameter, same in (("mask", False, True), ("n.running_var", False, False), ("w", True, False)):
            leaf = {"name": name, "parameter": parameter}
            self.assertEqual(torch.equal(draws.other_weight(leaf, torch.ones(50), self.numbers), torch.ones(50)), same)
        self.assertTrue(bool((draws.other_weight({"name": "n.running_var", "parameter": False}, torch.ones(50),
                                                 self.numbers) > 0).all()))


class Ratios(unittest.TestCase):
    def test_the_interval_covers_the_spread_between_pools(self):
        narrow = ratios.interval_of([[1.0, 1.01, 0.99] * 5])
        wide = ratios.interval_of([[1.0, 1.01, 0.99] * 5, [1.2, 1.21, 1.19] * 5, [0.8, 0.81, 0.79] * 5])
        self.assertLess(narrow[2] - narrow[1], 0.03)
        self.assertGreater(wide[2] - wide[1], 0.3)

    def test_memory_and_slow_beginnings(self):
        self.assertGreater(ratios.answers_from_memory([100, 110, 105], [10, 11, 12], [100] * 3, [101] * 3), 5)
        self.assertEqual(ratios.answers_from_memory([100, 110, 105], [90, 100, 95], [100] * 3, [101] * 3), 0)
        self.assertGreater(ratios.slow_beginning([0.1] * 5 + [1.0] * 7), 5)
        self.assertEqual(ratios.slow_beginning([0.9, 1.1, 1.0, 0.5, 2.0, 1.0, 1.1, 0.9]), 0)


class Readers(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.problem = (FILES / "problems" / "relu.py").read_text(encoding="utf-8")
        self.own = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.relu()\n"

    def tearDown(self):
        shutil.rmtree(self.folder)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def test_run_folders(self):
        self.write("level1/19_ReLU.py", self.problem)
        self.write("run/level_1_problem_19_sample_3_kernel.py", self.own)
        self.write("run/level_1_problem_20_sample_0_kernel.py", self.own + "import triton\n")
        found = readers.read(self.folder / "run", self.folder / "level1")
        self.assertEqual([(s.level, s.problem_id, s.sample) for s in found], [(1, 19, 3), (1, 20, 0)])
        self.assertEqual((found[0].problem, found[0].refusal), (self.problem, ""))
        self.assertIn("its problem was not found", found[1].refusal)

    def test_json_lines_as_cuda_l1_released_them(self):
        cuda = 'load_inline(cuda_sources="__global__ void k() {}")\nclass ModelNew: pass'
        records = [{"level_id": 1, "task_id": 19, "ref_code": self.problem, "custom_code": self.own},
                   {"level_id": "level2", "task_id": "7", "ref_code": self.problem, "custom_code": cuda},
                   {"level_id": 3, "task_id": 1, "ref_code": self.problem, "custom_code": None}]
        path = self.write("h100.json", "\n".join(json.dumps(r) for r in records))
        found = readers.read(path, None)
        self.assertEqual([(s.level, s.problem_id, s.language) for s in found[:2]], [(1, 19, "PyTorch"), (2, 7, "CUDA")])
        self.assertEqual([bool(s.refusal_on("cpu")) for s in found], [False, True, True])
        self.assertEqual([bool(s.refusal_on("cuda:0")) for s in found], [False, False, True])
        self.assertIn("needs a GPU", found[1].refusal_on("cpu"))

    def test_what_cannot_be_read_says_what_to_do(self):
        (self.folder / "empty").mkdir()
        for where, problems in ((self.folder / "none", None), (self.folder / "empty", None),
                                (self.write("a.py", self.own), self.folder / "none"),
                                (self.write("b.jsonl", "{"), None)):
            with self.assertRaises(readers.Unreadable):
                readers.read(where, problems)

    def run_audit(self, *words):
        return subprocess.run([sys.executable, str(PYTHON / "audit_submissions.py"), *map(str, words)],
                              capture_output=True, text=True, timeout=900)

    def test_the_command_goes_on_where_it_was(self):
        self.write("level1/19_ReLU.py", self.problem)
        self.write("run/level_1_problem_19_sample_0_kernel.py", self.own)
        self.write("run/level_1_problem_19_sample_1_kernel.py", self.own.replace("x.relu()", "x.clone()"))
        words = (self.folder / "run", "--problems", self.folder / "level1", "--out", self.folder / "out", "--pools", 1)
        first = self.run_audit(*words, "--json")
        self.assertEqual(first.returncode, 1, first.stderr)
        verdicts = json.loads(first.stdout)["submissions"]
        self.assertEqual([v["correct"] for v in verdicts], [True, False], verdicts)
        self.assertEqual(len(verdicts[0]["interval"]), 2)
        again = self.run_audit(*words, "--json")
        self.assertTrue(all(v["kept"] for v in json.loads(again.stdout)["submissions"]))
        self.assertEqual([v["speedup"] for v in json.loads(again.stdout)["submissions"]], [v["speedup"] for v in verdicts])
        results = self.folder / "run" / "eval_results.json"
        table = self.run_audit(*words, "--eval-results", results).stdout
        samples = json.loads(results.read_text())["19"]
        self.assertEqual([(s["sample_id"], s["compiled"], s["correctness"]) for s in samples],
                         [(0, True, True), (1, True, False)])
        self.assertEqual(samples[0]["runtime"], samples[0]["runtime_stats"]["mean"])
        self.assertAlmostEqual(samples[0]["runtime"] * 1000, verdicts[0]["own_us"])
        self.assertEqual(samples[1]["runtime"], -1)
        self.assertIn("distribution", samples[1]["metadata"]["refused"])
        self.assertIn("1 correct", table)
        self.assertIn("refused: distribution", table)

    def test_results_for_kernelbench_are_of_one_level(self):
        verdict = {"verdict": "refused", "kind": "build", "why": "no compiler", "evidence": [], "confined": True, "sample": 0,
                   "correct": False, "level": 1, "problem_id": 3}
        results = eval_results.results_of([verdict, {**verdict, "verdict": "not_judged", "level": 2},
                                           {**verdict, "problem_id": 0}])
        self.assertEqual([(s["compiled"], s["correctness"]) for s in results["3"]], [(False, False)])
        self.assertEqual(list(results), ["3"])
        with self.assertRaises(eval_results.SeveralLevels):
            eval_results.results_of([verdict, {**verdict, "level": 2}])

    @unittest.skipUnless(CUDAL1, "without --cudal1")
    def test_cudal1_audit(self):
        path = self.write("own.py", self.own.replace("x.relu()", "x.clone()"))
        problem = self.write("problem/19_ReLU.py", self.problem)
        done = subprocess.run([CUDAL1, "audit", "--kernelbench", path, "--problems", problem, "--pools", "1", "--json"],
                              capture_output=True, text=True, timeout=900, env={**os.environ, "CUDAL1_PYTHON": sys.executable})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(json.loads(done.stdout)["submissions"][0]["kind"], "distribution")
        for words in (["--kernelbench", path, "--device", "cuda:0"], ["--kernelbench", path, "--hacks"],
                      ["--out", "x"]):
            self.assertEqual(subprocess.run([CUDAL1, "audit", *words], capture_output=True, timeout=900,
                                            env={**os.environ, "CUDAL1_PYTHON": sys.executable}).returncode, 2, words)

    def test_devices_that_are_not_here_are_refused(self):
        for device, said in (("cuda:99", "there is no cuda:99 here"), ("gpu", "gpu is no device")):
            done = self.run_audit(self.write("a.py", self.own), "--device", device)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)


def refusal_of_machine():
    """Why it confines no worker; "" where it does."""
    zygote = Zygote(max(os.sched_getaffinity(0)), True, places.place_of("cpu", 1 << 20))
    try:
        with Worker(zygote, Limits()):
            return ""
    except MachineRefuses as problem:
        return str(problem)
    finally:
        zygote.close()


if __name__ == "__main__":
    if refused := refusal_of_machine():
        print(f"skipped: {refused}")
        sys.exit(77)  # ctest's SKIP_RETURN_CODE
    names = [word for word in sys.argv[1:] if word not in ("--cudal1", CUDAL1)]
    unittest.main(argv=[sys.argv[0], *(f"-k={name}" for name in names)], verbosity=1)
