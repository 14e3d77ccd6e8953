#!/usr/bin/env python3
"""Judges other people's kernels, for `cudal1 audit --kernelbench`: see submissions/README.md.

    audit_submissions.py WHERE [--problems DIR] [--device cpu|cuda:0] [--json] [--out DIR] [--eval-results FILE]
                         [--unconfined] [--records FILE]

WHERE is a Python file with ModelNew, a folder of such, a KernelBench run folder, JSON lines, or solutions (JSON) of
FlashInfer-Bench or SOL-ExecBench, whose definitions are found above them or in --problems. Exit codes: 0: all were
accepted; 1: one was not; 2: there is nothing to judge; 3: the machine cannot confine a worker.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import textwrap
from typing import Any

sys.dont_write_bytecode = True
os.environ.setdefault("OMP_NUM_THREADS", "1")

ACCEPTED, SOME_REFUSED, NOTHING, MACHINE = 0, 1, 2, 3
COLUMNS = ("submission", "verdict", "speedup over eager, 95%", "eager", "its own", "pairs", "evidence")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("where", type=pathlib.Path)
    parser.add_argument("--problems", type=pathlib.Path, help="the problems' folder, file or JSON lines")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, help="keeps verdicts; those that are there are not judged again")
    parser.add_argument("--eval-results", type=pathlib.Path, help="also writes the verdicts as KernelBench's scripts read "
                                                                  "them: eval_results.json")
    parser.add_argument("--records", type=pathlib.Path, help="also writes each verdict with source and problem, as JSON lines, "
                                                             "for cudal1's store")
    parser.add_argument("--unconfined", action="store_true", help="where the machine cannot confine: marked in every row")
    parser.add_argument("--pools", type=int, default=3, help="fresh workers, seeds and weights, so many times")
    parser.add_argument("--pairs", type=int, default=12, help="of timed calls a pool")
    parser.add_argument("--width", type=int, default=120, help="of the table; 0: no end")
    return parser.parse_args()


def fail(code: int, text: str) -> int:
    print(f"audit: {text}", file=sys.stderr)
    return code


def time_text(us: float) -> str:
    return "-" if not us else f"{us / 1000:.3g} ms" if us >= 1000 else f"{us:.3g} us"


def row_of(v: dict[str, Any]) -> list[str]:
    speed = f"{v['speedup']:.2f}x [{v['interval'][0]:.2f}, {v['interval'][1]:.2f}]" if v["correct"] else "-"
    verdict = v["verdict"].replace("_", " ") + (f": {v['kind'].replace('_', ' ')}" if v["kind"] else "")
    said = "; ".join(x for x in (v["why"], *v["evidence"][:3], *v["notes"]) if x)
    mark = "" if v["confined"] else "UNCONFINED "
    return [v["name"], mark + verdict, speed, time_text(v["eager_us"]), time_text(v["own_us"]), str(v["pairs"] or "-"), said]


def print_table(verdicts: list[dict[str, Any]], width: int) -> None:
    rows = [list(COLUMNS), *(row_of(v) for v in verdicts)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS) - 1)]
    left = sum(widths) + 2 * len(widths)
    for row in rows:
        text = "  ".join(cell.ljust(w) for cell, w in zip(row, widths))
        if width <= 0:  # no terminal: one line each
            print(f"{text}  {row[-1]}".rstrip())
        elif left + 30 <= width:
            lines = textwrap.wrap(row[-1], width - left) or [""]
            print(f"{text}  {lines[0]}".rstrip())
            for line in lines[1:]:
                print(" " * left + line)
        else:  # evidence below the row
            print(text.rstrip())
            if row is not rows[0]:
                for line in textwrap.wrap(row[-1], width - 4):
                    print(f"    {line}")


def summary(verdicts: list[dict[str, Any]]) -> str:
    import statistics

    def count(*names: str) -> int:
        return sum(v["verdict"] in names for v in verdicts)

    right = [v for v in verdicts if v["correct"]]
    mean = f", geometric mean {statistics.geometric_mean([v['speedup'] for v in right]):.3f}x over eager" if right else ""
    return (f"{len(verdicts)} submissions: {len(right)} correct ({count('faster')} faster, {count('slower')} slower{mean}), "
            f"{count('refused')} refused, {count('not_judged')} not judged.")


def kept_verdict(folder: pathlib.Path | None, key: str) -> dict[str, Any] | None:
    if folder is None:
        return None
    try:
        kept = json.loads((folder / f"{key}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # none, or one that a power cut left half written: it is judged again
        return None
    return kept if isinstance(kept, dict) and "verdict" in kept else None


def keep_verdict(folder: pathlib.Path, key: str, verdict: dict[str, Any]) -> None:
    new = folder / f"{key}.new"
    new.write_text(json.dumps(verdict) + "\n", encoding="utf-8")
    new.replace(folder / f"{key}.json")


def judge_all(o: argparse.Namespace, found: list[Any]) -> list[dict[str, Any]]:
    from submissions.referee import Referee, as_json

    folder = o.out / "verdicts" if o.out else None
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    verdicts = []
    with Referee(confined=not o.unconfined, pools=o.pools, pairs=o.pairs, device=o.device) as referee:
        kept = [kept_verdict(folder, referee.key_of(s)) for s in found]
        for i, submission in enumerate(found):
            key, verdict = referee.key_of(submission), kept[i]
            if verdict is None:
                if referee.must_build(submission) and not referee.is_built(submission):
                    new = [s for s, k in zip(found[i:], kept[i:]) if k is None and referee.must_build(s)]
                    referee.build_ahead(new[:referee.builds_at_once])
                verdict = as_json(referee.judge(submission))
                if folder and not submission.refusal_on(o.device):
                    keep_verdict(folder, key, verdict)
            else:  # the same source may come under another name
                verdict.update(name=submission.name, level=submission.level, problem_id=submission.problem_id,
                               sample=submission.sample, kept=True)
            verdicts.append(verdict)
            if o.records and verdict["verdict"] != "not_judged":
                with open(o.records, "a", encoding="utf-8") as records:
                    record = {"verdict": verdict, "source": submission.source, "problem": submission.problem}
                    records.write(json.dumps(record) + "\n")
            print(f"{i + 1}/{len(found)} {submission.name}: {verdict['verdict']} ({verdict['seconds']} s)",
                  file=sys.stderr, flush=True)
        for text in sorted(referee.missing):
            print(f"audit: the confinement lacks {text}", file=sys.stderr)
    return verdicts


def main() -> int:
    o = options()
    from submissions import confinement, places, readers

    try:
        places.check_device(o.device)
        found = readers.read(o.where, o.problems)
    except (readers.Unreadable, places.NoDevice, OSError) as problem:
        return fail(NOTHING, str(problem))
    if not o.unconfined and (refusal := confinement.refusal()):
        return fail(MACHINE, f"{refusal}. Only for files that you trust: --unconfined")
    from submissions.workers import MachineRefuses

    try:
        verdicts = judge_all(o, found)
    except MachineRefuses as problem:
        return fail(MACHINE, f"{problem.advice()}. Only for files that you trust: --unconfined")
    if o.out:
        o.out.joinpath("verdicts.json").write_text(json.dumps(verdicts, indent=1) + "\n", encoding="utf-8")
    if o.eval_results:
        from submissions import eval_results

        try:
            count = eval_results.write(o.eval_results, verdicts)
        except (eval_results.SeveralLevels, OSError) as problem:
            several = isinstance(problem, eval_results.SeveralLevels)
            return fail(NOTHING, f"--eval-results has one level, and these are of {problem}" if several else str(problem))
        print(f"{count} of {len(verdicts)} submissions are in {o.eval_results}; what was not judged, or has no problem's "
              "number, is not", file=sys.stderr)
    if o.json:
        print(json.dumps({"submissions": verdicts}))
    else:
        print_table(verdicts, o.width)
        print(summary(verdicts))
    return ACCEPTED if all(v["correct"] for v in verdicts) else SOME_REFUSED


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # with --out the same command goes on
        sys.exit(130)
