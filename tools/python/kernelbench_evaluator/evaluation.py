"""Runs the evaluator on files, each in processes of its own: first all are built, several at a time, then each is judged
while nothing else uses the device. Results are kept as they come, so that an interrupted evaluation goes on."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import threading
from time import monotonic
from typing import Any, Callable, Iterator

from . import checkout

ONE_FILE = pathlib.Path(__file__).resolve().parent / "one_file.py"


@dataclasses.dataclass(frozen=True)
class Task:
    name: str
    id: str
    level: int
    number: int
    file: pathlib.Path
    problem: pathlib.Path


@dataclasses.dataclass(frozen=True)
class Settings:
    kernelbench: pathlib.Path
    folder: pathlib.Path  # of builds and kept results; it is created
    device: str = "cuda:0"
    limit_s: float = 600.0  # of a build, and of a judgement
    jobs: int = 1  # builds at a time
    trials: int = checkout.TIMED_TRIALS


def tasks_of(exported: pathlib.Path) -> list[Task]:
    """Those of an export's index.json that have a file."""
    index = json.loads((exported / "index.json").read_text(encoding="utf-8"))
    return [Task(t["task"], t["id"], t["level"], t["problem"], exported / t["file"], exported / t["problem_file"])
            for t in index["tasks"] if t.get("file")]


class Processes:
    """Those that run, so that all can be ended."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._ended = False

    def run(self, words: list[str], log: pathlib.Path, limit_s: float, environment: dict[str, str]) -> str:
        """How it ended, "" for well. With it ends what it has started."""
        with open(log, "wb") as output:
            with self._lock:
                if self._ended:
                    return "it was interrupted"
                child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
                                         start_new_session=True)
                self._running.add(child)
            try:
                code = child.wait(limit_s)
                how = "" if code == 0 else f"its process ended with {_end_of(code)}: {_last_words(log)}"
            except subprocess.TimeoutExpired:
                how = f"it took longer than {limit_s:g} s"
            self._end(child)
        return how

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        with self._lock:
            self._running.discard(child)

    def end_all(self) -> None:
        with self._lock:
            self._ended = True
            running = list(self._running)
        for child in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def _end_of(code: int) -> str:
    return f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"


def _last_words(log: pathlib.Path) -> str:
    """What a traceback ends with, or what the handler of faults begins with."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    faults = [line for line in lines if line.startswith("Fatal Python error")]
    return (faults or lines or ["it printed nothing"])[-1][:300]


class Evaluation:
    """Of one export by one checkout."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.processes = Processes()
        checkout.layout_of(settings.kernelbench)
        self.fingerprint = checkout.fingerprint(settings.kernelbench)
        for part in ("kept", "builds", "logs"):
            (settings.folder / part).mkdir(parents=True, exist_ok=True)
        self.machine = self._stage("machine", "machine", [])
        if "problem" in self.machine:
            raise checkout.NoEvaluator(self.machine["problem"])

    def _stage(self, stage: str, name: str, words: list[str]) -> dict[str, Any]:
        s = self.settings
        result = s.folder / "logs" / f"{name}.{stage}.json"
        result.unlink(missing_ok=True)
        command = [sys.executable, "-X", "faulthandler", str(ONE_FILE), stage, str(s.kernelbench), s.device, str(result), *words]
        environment = {**os.environ, **({"TORCH_EXTENSIONS_DIR": words[0]} if words else {})}
        how = self.processes.run(command, s.folder / "logs" / f"{name}.{stage}.log", s.limit_s, environment)
        found = json.loads(result.read_text(encoding="utf-8")) if result.exists() and not how else {"problem": how or "it gave nothing"}
        result.unlink(missing_ok=True)
        return found

    def key_of(self, task: Task) -> str:
        """Of all that a result depends on."""
        parts = [task.file.read_bytes(), task.problem.read_bytes(), self.fingerprint.encode(),
                 json.dumps([self.machine, self.settings.trials]).encode()]
        return hashlib.sha256(b"".join(hashlib.sha256(p).digest() for p in parts)).hexdigest()

    def _kept(self, key: str) -> dict[str, Any] | None:
        try:
            kept = json.loads((self.settings.folder / "kept" / f"{key}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # none, or one that was left half written
            return None
        return kept if isinstance(kept, dict) and "verdict" in kept else None

    def _keep(self, key: str, found: dict[str, Any]) -> None:
        new = self.settings.folder / "kept" / f"{key}.new"
        new.write_text(json.dumps(found), encoding="utf-8")
        new.replace(new.with_suffix(".json"))

    def _words(self, task: Task, key: str) -> list[str]:
        return [str(self.settings.folder / "builds" / key), str(task.problem), str(task.file), str(self.settings.trials)]

    def _build(self, task: Task, key: str) -> str:
        """What went wrong, "" for nothing. A build that was interrupted begins anew, since PyTorch would wait for its lock."""
        folder = self.settings.folder / "builds" / key
        if (folder / "built").exists():
            return ""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        problem = self._stage("build", task.name, self._words(task, key)).get("problem", "")
        if not problem:
            (folder / "built").touch()
        return problem

    def _judge(self, task: Task, key: str, build_problem: str) -> dict[str, Any]:
        began = monotonic()
        found = {"problem": build_problem} if build_problem else self._stage("judge", task.name, self._words(task, key))
        if "problem" in found:  # a crash or a time limit refuses a file
            found = {"verdict": "refused", "why": ("in its build: " if build_problem else "") + found["problem"]}
        elif found["verdict"] != "not_judged":
            self._keep(key, found)
        found["kept"] = False
        found["seconds"] = round(monotonic() - began, 1)
        shutil.rmtree(self.settings.folder / "builds" / key, ignore_errors=True)
        return found

    def _build_all(self, keys: dict[Task, str], say: Callable[[str], None]) -> dict[Task, str]:
        with concurrent.futures.ThreadPoolExecutor(self.settings.jobs) as pool:
            builds = {task: pool.submit(self._build, task, key) for task, key in keys.items()}
            try:
                for i, (task, build) in enumerate(builds.items(), 1):
                    build.result()
                    say(f"built {i}/{len(builds)} {task.name}")
            except BaseException:  # Ctrl-C: the pool waits for its threads, and they for their processes
                self.processes.end_all()
                raise
        return {task: build.result() for task, build in builds.items()}

    def run(self, tasks: list[Task], say: Callable[[str], None]) -> Iterator[dict[str, Any]]:
        """A record for each task, in order, each as soon as it is known. KeyboardInterrupt ends what runs."""
        keys = {task: self.key_of(task) for task in tasks}
        kept = {task: self._kept(key) for task, key in keys.items()}
        missing = [t for t in tasks if kept[t] is None]
        try:
            builds = self._build_all({task: keys[task] for task in missing}, say)
            for i, task in enumerate(tasks, 1):
                own = kept[task]
                found = {**own, "kept": True} if own is not None else self._judge(task, keys[task], builds[task])
                record = {"task": task.name, "id": task.id, "level": task.level, "problem": task.number, "file": task.file.name,
                          "why": "", "ms": 0.0, "reference_ms": 0.0, "speedup": 0.0, "seconds": 0.0, "metadata": {}, **found}
                say(f"{i}/{len(tasks)} {line_of(record)}" + (", kept" if record["kept"] else f" ({record['seconds']} s)"))
                yield record
        finally:
            self.processes.end_all()


def line_of(record: dict[str, Any]) -> str:
    words = record["verdict"].replace("_", " ")
    if record["verdict"] == "accepted":
        return f"{record['task']}: {words}, {record['speedup']:.2f}x"
    return f"{record['task']}: {words}: {record['why']}"


def summary_of(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts, and the geometric mean over what was accepted, as KernelBench's analysis takes it (0: nothing was)."""
    speedups = [r["speedup"] for r in records if r["verdict"] == "accepted"]
    count = {v: sum(r["verdict"] == v for r in records) for v in ("accepted", "refused", "not_judged")}
    return {**count, "faster": sum(s > 1 for s in speedups), "geometric_mean": statistics.geometric_mean(speedups) if speedups else 0.0}
