#!/usr/bin/env python3
"""Evaluates wrong variants of many kinds, and compares the verdicts of two builds.

  wrong_variants.py run --bin DIR --device cpu|cuda:0 --out results.json [--only PATTERN]
  wrong_variants.py compare before.json after.json
  wrong_variants.py check --bin DIR        a quick sample on cpu, against what each variant declares
  wrong_variants.py list                   the corpus, by kind

`run` writes each variant as a program, evaluates it with `cudal1 evaluate`, and stores outcome, first failing gate and
reason. One correct program per task is run as a control. It needs only the programs of cudal1 and Python; tasks come
from the default folder of `cudal1 tasks`, or from --tasks DIR.

Exit codes: 0 success; 1 a verdict is not as declared, or differs between the two runs; 2 the command line is invalid,
or cudal1 failed.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import shutil
import sys
import tempfile
import time
from typing import Any

from corpus import ACCEPTED, CONTROL, DEVICES, KNOWN, Variant, chosen, corpus
from evaluation import CommandFailed, Cudal1, evaluate, profile_of, surprises
from report import compare

LEAST_VARIANTS, LEAST_KINDS = 200, 20


def wrong_ones(variants: list[Variant]) -> list[Variant]:
    return [v for v in variants if v.kind not in (CONTROL, KNOWN)]


def show_progress(done: int, of: int, part: list[dict[str, Any]]) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {of}: {part[-1]['name']:<60.60}")
        sys.stderr.flush()


def run_variants(args: argparse.Namespace, variants: list[Variant]) -> tuple[list[dict[str, Any]], float]:
    start = time.monotonic()
    work = pathlib.Path(tempfile.mkdtemp(prefix="wrong_variants."))
    cudal1 = Cudal1(args.bin, args.device, work, args.tasks, args.set)
    try:
        jobs = args.jobs or (3 if args.device == "cpu" else 6)
        return evaluate(cudal1, variants, jobs, show_progress), time.monotonic() - start
    finally:
        cudal1.close()
        if sys.stderr.isatty():
            sys.stderr.write("\n")
        if args.keep:
            print(f"the programs and the node's log are in {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)


def say_surprises(results: list[dict[str, Any]]) -> bool:
    lines = surprises(results)
    if lines:
        print(f"\n{len(lines)} verdicts are not as declared:\n  " + "\n  ".join(lines))
    return bool(lines)


def run(args: argparse.Namespace) -> int:
    variants = chosen(corpus(), profile_of(args.device), args.only)
    if not variants:
        print(f"no variant or kind matches {args.only}", file=sys.stderr)
        return 2
    results, seconds = run_variants(args, variants)
    kept = {"device": args.device, "seconds": round(seconds, 1), "variants": results}
    args.out.write_text(json.dumps(kept, indent=1) + "\n")
    wrong = [r for r in results if r["kind"] not in (CONTROL, KNOWN)]
    print(f"{len(wrong)} wrong variants of {len({r['kind'] for r in wrong})} kinds and "
          f"{sum(r['kind'] == CONTROL for r in results)} controls on {args.device} in {seconds:.0f} s")
    for outcome, count in collections.Counter(r["outcome"] for r in wrong).most_common():
        print(f"  {outcome:<16}{count:>5}")
    accepted = [r["name"] for r in wrong if r["outcome"] in ACCEPTED]
    if accepted:
        print(f"ACCEPTED although wrong: {', '.join(accepted)}")
    return 1 if say_surprises(results) else 0


def check(args: argparse.Namespace) -> int:
    """Checks the sample's verdicts and gates, and that every program of the corpus can be written for every device."""
    variants = corpus()
    kinds = {v.kind for v in wrong_ones(variants)}
    for device in DEVICES:
        count = len(wrong_ones(chosen(variants, device)))
        if count < LEAST_VARIANTS or len(kinds) < LEAST_KINDS:
            print(f"{count} wrong variants of {len(kinds)} kinds for {device}: fewer than {LEAST_VARIANTS} of "
                  f"{LEAST_KINDS}")
            return 1
    with tempfile.TemporaryDirectory() as folder:
        cudal1 = Cudal1(args.bin, args.device, pathlib.Path(folder), args.tasks)
        for device in ("cpu", "cuda:0"):
            tasks = cudal1.tasks(device)
            for v in chosen(variants, profile_of(device)):
                v.program(tasks[v.task]).text()
    sample = [v for v in chosen(variants, profile_of(args.device), args.only) if v.quick or args.only]
    results, seconds = run_variants(args, sample)
    for r in results:
        print(f"{'as declared' if r['as_declared'] else 'OTHERWISE':<12} {r['name']}: {r['outcome']}"
              + (f", gate {r['gate']}" if r["gate"] else ""))
    print(f"{len(results)} programs in {seconds:.0f} s")
    return 1 if say_surprises(results) or not results else 0


def show(args: argparse.Namespace) -> int:
    variants = corpus()
    kinds = collections.Counter(v.kind for v in variants)
    for kind, count in sorted(kinds.items()):
        tasks = {v.task for v in variants if v.kind == kind}
        print(f"{kind}: {count} on {len(tasks)} tasks")
        if args.names:
            for v in variants:
                if v.kind == kind:
                    print(f"  {v.name}{': ' + v.reason if v.reason else ''}")
    print(f"{len(wrong_ones(variants))} wrong variants of {len(kinds) - 2} kinds; for "
          + ", ".join(f"{d} {len(wrong_ones(chosen(variants, d)))}" for d in DEVICES))
    return 0


def compare_files(args: argparse.Namespace) -> int:
    before, after = (json.loads(path.read_text()) for path in (args.before, args.after))
    text, differences = compare(before, after)
    print(text)
    return 1 if differences else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, action in (("run", run), ("check", check)):
        sub = commands.add_parser(name)
        sub.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the program cudal1")
        sub.add_argument("--device", default="cpu", help="cpu, cuda:0, ...")
        sub.add_argument("--only", default="", metavar="PATTERN", help="names or kinds, such as 'softmax.*'")
        sub.add_argument("--tasks", type=pathlib.Path,
                         help="folder of the built-in tasks (default: that of cudal1)")
        sub.add_argument("--set", action="append", metavar="SECTION.KEY=VALUE", help="passed on to cudal1")
        sub.add_argument("--jobs", type=int, default=0, help="commands at a time (default: 3 on cpu, else 6)")
        sub.add_argument("--keep", action="store_true", help="keep the programs and data")
        sub.set_defaults(action=action)
        if name == "run":
            sub.add_argument("--out", type=pathlib.Path, required=True)
    sub = commands.add_parser("compare")
    sub.add_argument("before", type=pathlib.Path)
    sub.add_argument("after", type=pathlib.Path)
    sub.set_defaults(action=compare_files)
    sub = commands.add_parser("list")
    sub.add_argument("--names", action="store_true")
    sub.set_defaults(action=show)
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    try:
        return args.action(args)
    except (CommandFailed, OSError) as problem:
        print(f"wrong_variants.py: {problem}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
