#!/usr/bin/env python3
"""Runs KernelBench's own evaluator, unchanged, on exported files, for `cudal1 bench evaluator`.

    evaluate_exports.py EXPORTED --kernelbench CHECKOUT --out FILE [--device cuda:0] [--timeout S] [--jobs N] [--trials N]

EXPORTED is the folder of `cudal1 export --format kernelbench`; FILE gets the results as JSON after each file, and
EXPORTED/evaluator/ keeps them, so that the same command goes on. The files are executed, unconfined. Exit codes: 0 all
were accepted, 1 one was not, 2 there is nothing to evaluate, 3 the evaluator cannot run here, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys

from kernelbench_evaluator import checkout, evaluation

sys.dont_write_bytecode = True
ACCEPTED, SOME_REFUSED, NOTHING, MACHINE, INTERRUPTED = 0, 1, 2, 3, 130


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exported", type=pathlib.Path)
    parser.add_argument("--kernelbench", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for a file's build, and for its judgement")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="builds at a time")
    parser.add_argument("--trials", type=int, default=checkout.TIMED_TRIALS, help="timed calls")
    return parser.parse_args()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def fail(code: int, text: str) -> int:
    say(f"evaluator: {text}")
    return code


def main() -> int:
    o = options()
    try:
        tasks = evaluation.tasks_of(o.exported)
    except OSError as error:
        return fail(NOTHING, f"{o.exported} is no folder of `cudal1 export --format kernelbench`: {error}")
    if not tasks:
        return fail(NOTHING, f"{o.exported} has no exported file; its README.md says why")
    settings = evaluation.Settings(o.kernelbench.resolve(), (o.exported / "evaluator").resolve(), o.device, o.timeout, o.jobs, o.trials)
    try:
        run = evaluation.Evaluation(settings)
    except checkout.NoEvaluator as error:
        return fail(MACHINE, str(error))
    layout, _, _ = checkout.layout_of(o.kernelbench)
    about = {"format": 1, "layout": layout, "fingerprint": run.fingerprint, "trials": o.trials, "files": len(tasks), **run.machine}
    records: list[dict[str, object]] = []
    for record in run.run(tasks, say):
        records.append(record)
        new = o.out.with_name(o.out.name + ".new")
        new.write_text(json.dumps({**about, **evaluation.summary_of(records), "tasks": records}, indent=1) + "\n", encoding="utf-8")
        new.replace(o.out)
    return ACCEPTED if all(r["verdict"] == "accepted" for r in records) else SOME_REFUSED


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # the same command goes on
        sys.exit(INTERRUPTED)
