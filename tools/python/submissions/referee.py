"""Judges submissions: builds, pools of calls, and the verdict. Runs no line of a problem or of a submission itself."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from typing import Any

import torch

from core_turns import CoreTurns
from submissions import ratios
from submissions.judged import Found, NotJudged, Refused
from submissions.places import place_of
from submissions.pool import Pool
from submissions.readers import Submission
from submissions.spent import Spent
from submissions.workers import Died, Limits, Worker, Zygote

FLUSHED_BYTES = 40 << 20
MOST_BUILT = 512 << 20
LEAST_DATA = 2 << 30  # that a worker may have; more on a machine with more than 8 GB
LEAST_DATA_WITH_GPU = 16 << 30  # the driver's own is counted, too
BUILDS = ("load_inline", "cpp_extension", "torch.compile", "_inductor", "triton", "ninja", "subprocess", "os.system",
          "ctypes")
HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Verdict:
    name: str
    verdict: str  # faster, correct, slower; refused; not_judged
    correct: bool = False
    kind: str = ""  # of a refusal
    why: str = ""
    evidence: list[str] = dataclasses.field(default_factory=list)
    speedup: float = 0.0
    interval: list[float] = dataclasses.field(default_factory=list)
    eager_us: float = 0.0
    own_us: float = 0.0
    pairs: int = 0
    calls: int = 0
    pools: int = 0
    notes: list[str] = dataclasses.field(default_factory=list)
    confined: bool = True
    device: str = "cpu"
    seconds: float = 0.0
    language: str = ""
    level: int = 0
    problem_id: int = 0
    sample: int = 0
    ratios: list[list[float]] = dataclasses.field(default_factory=list)
    own_first: list[list[bool]] = dataclasses.field(default_factory=list)  # in the pairs of these
    burst: list[int] = dataclasses.field(default_factory=list)  # calls that are timed together, of each pool
    taken_us: list[float] = dataclasses.field(default_factory=list)  # by the referee: of a burst, and of a call
    spent: dict[str, float] = dataclasses.field(default_factory=dict)  # seconds, by part of the judgement

    @property
    def accepted(self) -> bool:
        return self.verdict in ("faster", "correct", "slower")


def version() -> str:
    """Of the referee: what its verdicts depend on beside submission and problem."""
    digest = hashlib.sha256(f"{torch.__version__} {sys.version}".encode())
    for path in sorted(HERE.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Referee:
    """Start one, judge many, close it."""

    def __init__(self, confined: bool = True, pools: int = 3, pairs: int = 12,
                 flush_bytes: int = FLUSHED_BYTES, data_bytes: int = 0, device: str = "cpu"):
        self.pool_count, self.pairs, self.confined = pools, pairs, confined
        cores = sorted(os.sched_getaffinity(0))
        self.core = cores[-1]
        self.place = place_of(device, flush_bytes)
        self.zygote = Zygote(self.core, confined, self.place)
        torch.set_num_threads(1)
        if len(cores) > 1:  # the last one is for what is timed
            os.sched_setaffinity(0, cores[:-1])
        self.turns = CoreTurns([self.core])
        self.missing: set[str] = set()
        self.builds: dict[tuple[str, str], Build] = {}
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        least = LEAST_DATA_WITH_GPU if self.place.is_gpu else LEAST_DATA
        self.limits = Limits(data_bytes=data_bytes or max(least, physical // 4))

    def __enter__(self) -> Referee:
        return self

    def __exit__(self, *_: object) -> None:
        for build in self.builds.values():
            build.close()
        self.turns.close()
        self.zygote.close()

    def key_of(self, s: Submission) -> str:
        parts = (s.source, s.problem, version(), self.place.device, str(self.confined), str(self.pool_count), str(self.pairs))
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def judge(self, s: Submission) -> Verdict:
        begin = time.perf_counter()
        verdict = Verdict(s.name, "not_judged", confined=self.confined, device=self.place.device,
                          language=s.language, level=s.level, problem_id=s.problem_id, sample=s.sample)
        if why := s.refusal_on(self.place.device):
            verdict.why = why
            return verdict
        spent = Spent()
        try:
            built = self.builds.pop(self.build_key(s), None) or self.start_build(s)
            with contextlib.closing(built), spent.on("other"):
                with spent.on("build"):
                    folder = built.folder()
                self.judge_in(s, folder, verdict, spent)
        except NotJudged as problem:
            verdict.why = str(problem)
        except Refused as refused:
            verdict.verdict, verdict.kind, verdict.why = "refused", refused.kind, str(refused)
            verdict.evidence, verdict.notes = refused.evidence, refused.notes
        verdict.seconds = round(time.perf_counter() - begin, 2)
        verdict.spent = {name: round(seconds, 3) for name, seconds in spent.seconds.items()}
        return verdict

    def start(self, built: str = "") -> Worker:
        return Worker(self.zygote, self.limits, built=built)

    def judge_in(self, s: Submission, built: str, verdict: Verdict, spent: Spent) -> None:
        numbers = random.Random(int.from_bytes(os.urandom(16), "big"))
        found: list[Found] = []
        slower: list[float] = []  # in the beginning, once a pool that shows it
        with contextlib.ExitStack() as all_workers:
            def started(built: str = "") -> Worker:
                return all_workers.enter_context(contextlib.closing(self.start(built)))

            exact = started()  # for all pools: it is the problem's, and its calls are not timed
            # On a GPU all of them make their contexts at once, before any call is timed.
            ahead = [(started(), started(built)) for _ in range(self.pool_count if self.place.is_gpu else 0)]
            with spent.on("start of workers"):
                for worker in (exact, *(w for pair in ahead for w in pair)):
                    worker.ready()
            while len(found) < self.pool_count or len(slower) == 1 and len(found) == self.pool_count:
                with spent.on("start of workers"):
                    eager, own = ahead.pop(0) if ahead else (started(), started(built))
                    eager.ready(), own.ready()
                pool = Pool(self.limits, s.problem, s.source, built, numbers, self.pairs, self.turns, spent)
                with eager, own:
                    found.append(pool.judge(eager, exact, own))
                if times := ratios.slow_beginning(found[-1].all_ratios):
                    slower.append(times)
                if len(slower) > 1:  # twice: not by chance of what else the machine does
                    raise Refused("unsteady", f"its first calls are {min(slower):.1f} times slower than its later "
                                              "ones, after those that do not count")
        self.conclude(found, verdict)

    def conclude(self, found: list[Found], verdict: Verdict) -> None:
        def all_of(name: str) -> list[int]:
            return [ns for f in found for ns in getattr(f, name)]

        gain = ratios.answers_from_memory(all_of("first_ns"), all_of("again_ns"), all_of("eager_first_ns"),
                                          all_of("eager_again_ns"))
        if gain:
            what = "time" if self.place.is_gpu else "of the processor"
            raise Refused("memo", f"inputs that it has met take {gain:.1f} times less {what} than new ones")
        late = ratios.late_us(all_of("own_burst_ns"), all_of("own_late_ns"), all_of("eager_late_ns"))
        if self.place.is_gpu and late:
            raise Refused("late", f"its kernels go on for {late:.0f} us behind its answer")
        verdict.ratios = [[round(r, 4) for r in f.ratios] for f in found]
        verdict.own_first = [f.own_first for f in found]
        verdict.burst = [f.burst for f in found]
        verdict.taken_us = [round(statistics.median(getattr(f.taken, part) for f in found) / 1000, 2)
                            for part in ("handshake_ns", "copy_ns")]
        verdict.speedup, low, high = ratios.interval_of([f.ratios for f in found])
        verdict.interval = [low, high]
        verdict.correct = True
        verdict.verdict = "faster" if low > 1 else "slower" if high < 1 else "correct"
        verdict.eager_us = statistics.median(all_of("eager_ns")) / 1000
        verdict.own_us = statistics.median(all_of("own_ns")) / 1000
        verdict.pairs, verdict.calls, verdict.pools = len(all_of("own_ns")), sum(f.calls for f in found), len(found)
        notes = set().union(*(f.notes for f in found))
        passing = set.intersection(*(f.passing_null_models or set() for f in found))
        if passing:
            notes.add(f"{' and '.join(sorted(passing))} is right on every draw, too: the task takes no work")
        verdict.notes = sorted(notes)

    # ---- builds -----------------------------------------------------------------------------------------------------

    @staticmethod
    def build_key(s: Submission) -> tuple[str, str]:
        return s.source, s.problem

    def must_build(self, s: Submission) -> bool:
        return not s.refusal_on(self.place.device) and any(word in s.source for word in BUILDS)

    def is_built(self, s: Submission) -> bool:
        return self.build_key(s) in self.builds

    def start_build(self, s: Submission) -> Build:
        return Build(self, s, self.confined and not any(word in s.source for word in BUILDS))

    def build_ahead(self, submissions: list[Submission]) -> None:
        """Builds these at once, and returns when all are built, so that none of it disturbs what is timed. judge()
        takes them."""
        for s in submissions:
            if not self.is_built(s):
                self.builds[self.build_key(s)] = self.start_build(s)
        for build in self.builds.values():
            build.thread.join()

    @property
    def builds_at_once(self) -> int:
        """Each compiles in two processes for a part of its time."""
        return max(1, min(12, len(os.sched_getaffinity(0)) * 3 // 4))


class Build:
    """In a worker of its own, whose /tmp/build stays: what a submission compiles when it is loaded and first called.
    The workers that are timed get a copy."""

    def __init__(self, referee: Referee, s: Submission, nothing: bool):
        self.referee, self.submission = referee, s
        self.where = "" if nothing else tempfile.mkdtemp(prefix="cudal1-build-")
        self.failed: Exception | None = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def folder(self) -> str:
        """"" if it compiles nothing. Refused, if it cannot be built."""
        self.thread.join()
        if self.failed is not None:
            raise self.failed
        return self.where

    def close(self) -> None:
        if self.where:
            shutil.rmtree(self.where, ignore_errors=True)

    def run(self) -> None:
        if self.where:
            try:
                self.build()
            except Exception as problem:
                self.failed = problem

    def build(self) -> None:
        s, referee = self.submission, self.referee
        os.chmod(self.where, 0o777)
        limits = dataclasses.replace(referee.limits, load_s=300.0, call_s=300.0, processes=256)
        with Worker(referee.zygote, limits, build_into=self.where) as worker:
            referee.missing.update(worker.missing)
            try:
                reply = worker.ask("load", 300.0, problem=s.problem, submission=s.source, seed=random.getrandbits(31),
                                   double=False)
                if "problem" not in reply:
                    reply = worker.ask("rehearse", 300.0, seed=random.getrandbits(31))
                if "problem" not in reply:
                    reply = worker.ask("open_folder", 60.0)
            except Died as problem:
                raise Refused("died", f"its build: {problem}") from problem
            if "problem" in reply:
                printed = [line for line in worker.output.kept.decode(errors="replace").splitlines() if "error:" in line]
                raise Refused("build", f"its build: {reply['problem']}" + (f"; {printed[0][:200]}" if printed else ""))
        size = sum(f.stat().st_size for f in pathlib.Path(self.where).rglob("*") if f.is_file() and not f.is_symlink())
        if size > MOST_BUILT:
            raise Refused("build", f"its build left {size >> 20} MB; at most {MOST_BUILT >> 20} MB are kept")


def as_json(verdict: Verdict) -> dict[str, Any]:
    return dataclasses.asdict(verdict)
