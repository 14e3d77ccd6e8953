"""Searches models one after the other with `cudal1 run`, as a user does, and says which have a fault."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import textwrap
from typing import Any

FAULTS = ("crash", "hang", "out_of_bounds")  # whatever explains them
REFUSED = re.compile(r"was refused: (.*)")
BEYOND = 900.0  # seconds that an import, the last evaluation and the baseline may take beyond the search's time
UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclasses.dataclass
class Line:
    """What the table says of one model."""

    name: str
    steps: str = ""
    evaluations: str = ""
    speedup: str = ""
    over_eager: str = ""
    lost: str = ""
    failures: str = ""
    remark: str = ""
    faults: list[str] = dataclasses.field(default_factory=list)
    refused: bool = False


def seconds_of(duration: str) -> float:
    parts = re.findall(r"(\d+)([smh])", duration)
    if "".join(n + unit for n, unit in parts) != duration or not parts:
        raise SystemExit(f"library_models: --time {duration}: write it as in 60s, 4m, 1h30m")
    return sum(int(n) * UNITS[unit] for n, unit in parts)


class Search:
    """Of one model, in a data folder of its own."""

    def __init__(self, o: argparse.Namespace, file: pathlib.Path, out: pathlib.Path) -> None:
        self.o, self.file, self.out = o, file, out
        self.data = out / file.stem
        self.line = Line(file.stem)

    def cudal1(self, *words: str, limit: float = 120.0) -> subprocess.CompletedProcess[str]:
        command = [str(self.o.bin / "cudal1"), *words, "--data", str(self.data)]
        return subprocess.run(command, capture_output=True, text=True, timeout=limit)

    def answer(self, *words: str) -> dict[str, Any]:
        done = self.cudal1(*words, "--json")
        if done.returncode != 0:
            raise SystemExit(f"cudal1 {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def keep(self, ending: str, text: str) -> None:
        (self.out / f"{self.file.stem}.{ending}").write_text(text, encoding="utf-8")

    def run(self) -> Line:
        shutil.rmtree(self.data, ignore_errors=True)
        limit = seconds_of(self.o.time) + BEYOND
        words = ("run", str(self.file), "--device", self.o.device, "--time", self.o.time, "--json")
        try:
            done = self.cudal1(*words, limit=limit)
            self.keep("log", done.stderr)
            self.read_run(done)
        except subprocess.TimeoutExpired:
            self.line.faults.append(f"no end after {limit:.0f} s")
        finally:
            self.cudal1("stop", "--node")
        if not self.line.faults:
            shutil.rmtree(self.data, ignore_errors=True)
        return self.line

    def read_run(self, done: subprocess.CompletedProcess[str]) -> None:
        refused = REFUSED.search(done.stderr)
        if done.returncode != 0 and refused is not None:
            self.line.refused, self.line.remark = True, f"refused: {refused[1]}"
            return
        if done.returncode != 0:
            said = done.stderr.strip().splitlines()
            self.line.faults.append(f"exit code {done.returncode}: {said[-1] if said else 'nothing said'}")
            return
        self.keep("json", done.stdout)
        self.read_report(json.loads(done.stdout))
        failures = self.answer("failures", "--all")["failures"]
        self.keep("failures.json", json.dumps(failures, indent=1))
        self.read_failures(failures)

    def read_report(self, report: dict[str, Any]) -> None:
        line = self.line
        task = report["tasks"][0]
        imports = [json.loads(file.read_text()) for file in (self.data / "imported").glob("*/report")]
        steps = {t["name"]: t["steps"] for one in imports for t in one["imported"]}
        line.steps = str(steps.get(task["name"], ""))
        line.evaluations = str(report["evaluations"])
        line.speedup = f"{task['speedup']:.2f}x"
        base = task["against"]["speedup"]
        line.over_eager = f"{base:.2f}x" if base else "-"
        line.lost = str(report["infrastructure_faults"])
        remarks = [task["remark"]] if task["remark"] else []
        if task["name"] != self.file.stem:
            remarks.insert(0, f"searched: {task['name'].removeprefix(self.file.stem)}")
        line.remark = "; ".join(remarks)
        if report["infrastructure_faults"]:
            line.faults.append(f"{report['infrastructure_faults']} lost attempts")
        if not report["evaluations"]:
            line.faults.append("no evaluation")

    def read_failures(self, failures: list[dict[str, Any]]) -> None:
        counts = collections.Counter(f["outcome"] for f in failures)
        self.line.failures = ", ".join(f"{kind} {n}" for kind, n in counts.most_common()) or "-"
        faults = [f for f in failures if f["outcome"] in FAULTS or f["cause"] == "bug"]
        kinds = collections.Counter((f["outcome"], f["gate"]) for f in faults)
        for (outcome, gate), count in kinds.most_common():
            first = min((f for f in faults if (f["outcome"], f["gate"]) == (outcome, gate)), key=lambda f: len(f["schedule"]))
            self.line.faults.append(f"{count} {outcome} ({gate or 'no gate'}): {first['reason']} [{first['schedule']}]")


HEADS = ("steps", "evals", "best", "eager", "lost", "failures", "remark")


def cells(line: Line) -> tuple[str, ...]:
    return (line.steps, line.evaluations, line.speedup, line.over_eager, line.lost, line.failures, line.remark)


def text(name: str, words: tuple[str, ...], width: int) -> str:
    steps, evaluations, speedup, eager, lost, failures, remark = words
    head = f"{name:{width}}  {steps:>5}  {evaluations:>5}  {speedup:>6}  {eager:>6}  {lost:>4}"
    return f"{head}  {failures:24}  {textwrap.shorten(remark, 100, placeholder=' ...')}".rstrip()


def run(files: list[pathlib.Path], o: argparse.Namespace) -> int:
    out = (o.out or pathlib.Path(tempfile.mkdtemp(prefix="cudal1-library-models-"))).resolve()
    out.mkdir(parents=True, exist_ok=True)
    width = max(len(file.stem) for file in files)
    print(text("model", HEADS, width), flush=True)
    lines = []
    for file in files:
        line = Search(o, file.resolve(), out).run()
        lines.append(line)
        print(text(line.name, cells(line), width), flush=True)
        for fault in line.faults:
            print(f"{'':{width}}  FAULT: {fault}", flush=True)
    faulty = [line.name for line in lines if line.faults]
    refused = [line.name for line in lines if line.refused]
    faster = sum(float(line.speedup[:-1]) > 1 for line in lines if line.speedup)
    print(f"{len(lines)} models: {len(lines) - len(refused)} searched, {faster} of them faster than the task's own program; "
          f"refused: {', '.join(refused) or 'none'}; with a fault: {', '.join(faulty) or 'none'}.")
    print(f"Reports and logs are in {out}.")
    return 1 if faulty else 0
