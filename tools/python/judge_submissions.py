#!/usr/bin/env python3
"""Judges Python files with ModelNew one after another, for the commands and the node: the referee of submissions/ as a
process that stays.

    judge_submissions.py [--pools N]

A request is a line of JSON on standard input: `name`, `source`, and the problem, as `problem` (a text in KernelBench's
form) or as `task` (a task file whose sizes are numbers). An answer is a line: `verdict` (submissions/referee.py), or
`error` with its `code`: unsupported, where the problem cannot be judged. The first line is `ready`, or an error. Ends
with its input.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

sys.dont_write_bytecode = True
os.environ.setdefault("OMP_NUM_THREADS", "1")
NEEDS_GPU = "{} needs a GPU, and this judge has the device cpu; `cudal1 audit --kernelbench --device cuda:0` judges it"


def problem_of(torch: Any, request: dict[str, Any]) -> str:
    if "problem" in request:
        return str(request["problem"])
    from task_problem import problem_text

    return problem_text(torch, request["task"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, default=3, help="fresh workers, seeds and weights, so many times")
    o = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what prints by mistake is no answer

    def answer(document: dict[str, Any]) -> None:
        answers.write(json.dumps(document) + "\n")
        answers.flush()

    def refuse(code: str, text: str) -> int:
        answer({"error": text, "code": code})
        return 3

    import torch

    from submissions import confinement, readers
    from submissions.workers import MachineRefuses
    from task_problem import Unsupported

    if refusal := confinement.refusal():
        return refuse("unsupported", refusal)
    from submissions.referee import Referee, Verdict, as_json

    try:
        with Referee(pools=o.pools) as referee:
            answer({"ready": True, "missing": sorted(referee.missing)})
            for line in sys.stdin:
                try:
                    request = json.loads(line)
                    submission = readers.made(request["name"], request["source"], problem_of(torch, request))
                except Unsupported as problem:
                    answer({"error": str(problem), "code": "unsupported"})
                    continue
                why = submission.refusal or (NEEDS_GPU.format(submission.language) if submission.needs_gpu else "")
                if why:
                    verdict = Verdict(submission.name, "refused", kind="file", why=why, language=submission.language)
                else:
                    verdict = referee.judge(submission)
                if verdict.verdict == "not_judged":  # says something about the problem
                    answer({"error": verdict.why, "code": "unsupported"})
                else:
                    answer({"verdict": as_json(verdict)})
    except MachineRefuses as problem:
        return refuse("unsupported", problem.advice())
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
