#!/usr/bin/env python3
"""Hunts for moves that make wrong programs: searches random tasks with every policy, and prints each verdict that only a
bug of cudal1 explains (`cudal1 failures`), with what reproduces it.

    tests/tools/hunt_failures.py BIN [--seed N] [--time SECONDS] [--device DEVICE] [--out DIR]

BIN has cudal1, cudal1-node and the workers; needs a Python with torch. The same seed makes the same tasks and the same
random schedules; how many of them are reached depends on the machine. DIR (default: a temporary folder, kept if
something is found) gets the tasks and the failing programs. Verdicts that a limit or the task explains are printed too,
in one line. Exit codes: 0 nothing was found; 1 something was; 2 the hunt could not run.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

from random_tasks import random_task

TASKS_A_ROUND = 6
EVALUATIONS = 16  # of each task
POLICIES = ("random", "evolutionary", "random", "learned")  # in turn
# How fast they are does not matter here: one pair of calls, however little it tells.
SETTINGS = ("timing.screening_forks=1", "timing.screening_pairs=1", "timing.max_forks=1", "timing.screening_half_width=10",
            "timing.screened_limit=10", "timing.confirmed_limit=10")  # fmt: skip


class Hunt:
    def __init__(self, bin_folder: pathlib.Path, out: pathlib.Path, seed: int, seconds: float, device: str) -> None:
        self.program, self.out, self.seed, self.device = str(bin_folder / "cudal1"), out, seed, device
        self.end = time.monotonic() + seconds
        self.tasks = self.refused = 0
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.found: list[dict[str, Any]] = []

    def cudal1(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.program, *words, "--data", str(self.out / "data")], capture_output=True, text=True)

    def answer(self, *words: str) -> dict[str, Any]:
        done = self.cudal1(*words, "--json")
        if done.returncode != 0:
            raise SystemExit(f"cudal1 {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def write_tasks(self, number: int) -> pathlib.Path:
        r = random.Random(f"{self.seed}/{number}")
        folder = self.out / f"tasks_{number}"
        folder.mkdir(parents=True)
        for i in range(TASKS_A_ROUND):
            task = random_task(f"hunted_{number}_{i}", r)
            (folder / f"{task['name']}.json").write_text(json.dumps(task, indent=1) + "\n")
        self.remove_refused(folder)
        self.tasks += len(list(folder.iterdir()))
        return folder

    def remove_refused(self, folder: pathlib.Path) -> None:
        """PyTorch accepts these programs; cudal1 may know less."""
        while (checked := self.cudal1("tasks", "--tasks", str(folder), "--device", self.device)).returncode != 0:
            refused = re.search(r"task (hunted_\d+_\d+)", checked.stderr)
            if refused is None:
                raise SystemExit(f"cudal1 tasks ended with {checked.returncode}: {checked.stderr.strip()}")
            print(f"refused: {checked.stderr.strip()}", flush=True)
            (folder / f"{refused[1]}.json").rename(self.out / f"{refused[1]}_refused.json")
            self.refused += 1

    def round(self, number: int) -> None:
        folder = self.write_tasks(number)
        left = max(5, int(self.end - time.monotonic()))
        report = self.answer(
            "run", "--tasks", str(folder), "--device", self.device, "--policy", POLICIES[number % len(POLICIES)],
            "--seed", str(self.seed + number), "--evaluations", str(EVALUATIONS), "--time", f"{left}s",
            *(word for setting in SETTINGS for word in ("--set", setting)),
        )  # fmt: skip
        self.outcomes.update(report["outcomes"])
        for failure in self.answer("failures", "--all", "--experiment", report["experiment"])["failures"]:
            if failure["cause"] == "bug":
                self.show(folder, failure)
            elif failure["outcome"] != "unmeasurable":  # as is to be expected of one pair of calls
                print(f"{failure['cause']}: {failure['name']} {failure['outcome']} {failure['gate']}: {failure['reason']}")

    def show(self, folder: pathlib.Path, failure: dict[str, Any]) -> None:
        program = self.out / f"{failure['name']}_{failure['variant'][:12]}.cu1"
        program.write_text(self.cudal1("show", failure["variant"], "--program").stdout)
        self.found.append(failure)
        task = folder / f"{failure['name']}.json"
        print(f"{failure['outcome']} ({failure['gate'] or 'no gate'}): {failure['reason']}")
        print(f"  schedule: {failure['schedule']}")
        print(f"  in no correct variant: {'; '.join(failure['only_here']) or 'none of these moves'}")
        print(f"  again: {self.program} evaluate {task} {program} --device {self.device}", flush=True)

    def run(self) -> None:
        number = 0
        try:
            while time.monotonic() < self.end:
                self.round(number)
                number += 1
        finally:
            self.cudal1("stop", "--node")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time", type=float, default=120)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=pathlib.Path)
    o = parser.parse_args()
    out = (o.out or pathlib.Path(tempfile.mkdtemp(prefix="cudal1-hunt-"))).resolve()
    hunt = Hunt(o.bin.resolve(), out, o.seed, o.time, o.device)
    hunt.run()
    outcomes = ", ".join(f"{n} {kind}" for kind, n in hunt.outcomes.most_common())
    print(f"seed {o.seed} on {o.device}: {hunt.tasks} tasks ({hunt.refused} more were refused), evaluations: "
          f"{outcomes or 'none'}; {len(hunt.found)} failures that only a bug explains")
    if hunt.found:
        print(f"kept in {out}")
    elif o.out is None:
        shutil.rmtree(out)
    return 1 if hunt.found else 0


if __name__ == "__main__":
    sys.exit(main())
