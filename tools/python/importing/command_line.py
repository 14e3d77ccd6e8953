"""The importer's command line, progress and report. Needs no torch: what is wrong with a command line or with the syntax
of a model is said before that is loaded."""

from __future__ import annotations

import argparse
import ctypes
import json
import pathlib
import shutil
import signal
import sys
import threading
import time
from typing import Any

from .problems import Problem, check_syntax, find_problems
from .refusal import Refused

_BEGAN = time.monotonic()


def parse(description: str, words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="import_tasks.py", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", nargs="+", metavar="SOURCE")
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="DIR")
    parser.add_argument(
        "--inputs",
        action="append",
        default=[],
        metavar="FUNCTION",
        help="gives the example inputs: a function or a value of the model's module, FILE.py:NAME or package.module:NAME; "
        "given several times, it makes a task of each",
    )
    parser.add_argument(
        "--weights",
        default="",
        metavar="FILE",
        help="the model's state_dict, by torch.save or safetensors; without it, that of FILE.safetensors, .pt or .pth beside "
        "FILE.py, if it is the model's",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME,...",
        help="only these tasks: whole names, or beginnings as in level1_023",
    )
    parser.add_argument(
        "--module",
        default="",
        metavar="PATH",
        help="only this module of the model, as in encoder.layers.0: its inputs are recorded in calls of the model",
    )
    parser.add_argument(
        "--workloads",
        type=pathlib.Path,
        metavar="FILE",
        help="JSON lines with the workloads of a definition, where they are elsewhere than beside it",
    )
    parser.add_argument("--level", type=int, metavar="N", help="only KernelBench's problems of this level")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: half of the cores)")
    parser.add_argument(
        "--verify",
        type=float,
        default=40.0,
        metavar="SECONDS",
        help="compare the steps with the model on the CPU if that is estimated to take no longer, else on a part of its "
        "batch, or whole if that takes no longer than three times this (default 40; 0: never)",
    )
    parser.add_argument(
        "--operators",
        type=pathlib.Path,
        metavar="FILE",
        help="the operators that tasks may have, as `cudal1 operators --json` prints them (default: what PROGRAM prints). "
        "Missing composite operators are decomposed, and a problem that needs any other is refused",
    )
    parser.add_argument(
        "--rules",
        metavar="PROGRAM",
        required=True,
        help="cudal1 itself, which is asked for its operators, and what its rules say of each step",
    )
    parser.add_argument(
        "--limit", type=float, default=900.0, metavar="SECONDS", help="for one problem (default 900)"
    )
    parser.add_argument("--json", action="store_true", help="the report as one JSON document on stdout")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="the report as a JSON document in FILE")
    parser.add_argument("--show-output", action="store_true", help="show on stderr what the models' own code prints")
    return parser.parse_args(words)


def _chosen(problems: list[Problem], o: argparse.Namespace) -> list[Problem]:
    wanted = [w for words in o.only for w in words.split(",") if w]
    kept = [p for p in problems if o.level is None or p.level == o.level]
    if not wanted:
        return kept
    for word in wanted:
        if not any(p.name == word or p.name.startswith(word + "_") for p in kept):
            raise SystemExit(f"import_tasks: --only {word}: there is no such problem")
    return [p for p in kept if any(p.name == w or p.name.startswith(w + "_") for w in wanted)]


def _compared(line: dict[str, Any]) -> str:
    if line["rounding"]:
        return f"verified within rounding ({line['rounding']:.1e})"
    return "verified" if line["verified"] else f"uncompared: {line['uncompared']}"


def _print_report(imported: list[dict[str, Any]], refused: list[dict[str, Any]]) -> None:
    width = max((len(line["name"]) for line in imported), default=4)
    for line in imported:
        print(
            f"{line['name']:{width}}  {line['family']:16}  {line['steps']:4} steps  "
            f"{line['weights']:4} weights  "
            f"{_compared(line)}".rstrip()
        )
        for note in line["notes"]:
            print(f"{'':{width}}  {note}")
    for line in refused:
        print(f"{line['name']}: refused: {line['reason']}")
    print(
        f"{len(imported)} imported ({sum(line['verified'] for line in imported)} compared with the model), "
        f"{len(refused)} refused; {sum(line['rewritings'] for line in imported)} rewritings of recorded steps checked, "
        f"{sum(len(line['unchecked']) for line in imported)} too large for that"
    )


def problems_of(o: argparse.Namespace) -> list[Problem]:
    if o.workloads and not o.workloads.is_file():
        raise SystemExit(f"import_tasks: --workloads {o.workloads}: there is no such file")
    problems = _chosen(find_problems(o.source, o.workloads), o)
    if not problems:
        print("import_tasks: there is no problem to import", file=sys.stderr)
        raise SystemExit(2)
    if len(problems) > 1 and (o.inputs or o.weights or o.module):
        words = "--inputs, --weights and --module are of one model"
        print(f"import_tasks: {words}, and there are {len(problems)}", file=sys.stderr)
        raise SystemExit(2)
    return problems


def begin(description: str, words: list[str]) -> None:
    """Ends the process if the command line is wrong, or no problem has valid syntax."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback
    o = parse(description, words)
    report = []
    for problem in problems_of(o):
        try:
            check_syntax(problem)
        except Refused as e:
            report.append({"name": problem.name, "reason": str(e)})
        else:
            break
    else:
        raise SystemExit(give_report(o, report))
    Progress(is_shown=not o.show_output).count_up("loading PyTorch")


def end_with_parent() -> None:
    """Kills this process when its parent ends."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


class Progress:
    """A line on a terminal that is written again and again."""

    _counting: tuple[threading.Thread, threading.Event] | None = None  # of the process

    def __init__(self, is_shown: bool) -> None:
        self.is_shown = is_shown and sys.stderr.isatty()

    def count_up(self, text: str) -> None:
        """Shows the text with the time, each second, until stop_counting()."""
        if not self.is_shown:
            return
        end = threading.Event()

        def count() -> None:
            self.show_text(text)
            while not end.wait(1.0):
                self.show_text(text)

        Progress._counting = threading.Thread(target=count, daemon=True), end
        Progress._counting[0].start()

    @staticmethod
    def stop_counting() -> None:
        """To be called before the process forks."""
        if Progress._counting is not None:
            Progress._counting[1].set()
            Progress._counting[0].join()
            Progress._counting = None

    def show(self, done: int, total: int, running: list[str]) -> None:
        self.show_text(f"{done}/{total}  {', '.join(running)}")

    def show_text(self, text: str) -> None:
        if self.is_shown:
            seconds = int(time.monotonic() - _BEGAN)
            line = f"{seconds // 60}:{seconds % 60:02}  {text}"
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{line[:width]}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def give_report(o: argparse.Namespace, report: list[dict[str, Any]]) -> int:
    """Prints it, and gives the exit code."""
    imported = [line for line in report if "reason" not in line]
    refused = [line for line in report if "reason" in line]
    if o.json or o.report:
        files = {file["path"]: file for line in imported for file in line.pop("files")}
        text = json.dumps({"imported": imported, "refused": refused, "files": list(files.values())})
        if o.report:
            o.report.write_text(text, encoding="utf-8")
        else:
            print(text)
    else:
        _print_report(imported, refused)
    return 1 if refused else 0
