#!/usr/bin/env python3
"""Puts a package of variants together, of what `cudal1 export --format torch` has staged: a folder for each task with its
definition, the variant's program and its compiled kernels. Each variant is checked and measured as a module before it is
kept, on the device that it is for, where that is here."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent


# ---- checks ---------------------------------------------------------------------------------------------------------


def check(root: pathlib.Path, name: str, seconds: float) -> dict[str, Any]:
    """`python -m NAME --json` in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-m", name, "--json", "--seconds", str(seconds)], env=environment,
                          stdout=subprocess.PIPE, text=True, cwd=root)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"the check of the package ended with exit code {done.returncode}") from None


def keep_checked(writer: Any, found: dict[str, Any], refused: list[str], unchecked: list[str]) -> None:
    """Leaves the variants out that are wrong or slower as a module, and notes the others' times."""
    gone = set()
    for c in found["cases"]:
        entry = next(p for p in writer.index["programs"] if p["task"] == c["task"])
        if c["status"] == "cannot run":
            unchecked.append(f"{c['task']}: {c['why']}")
        elif c["status"] in ("wrong", "slower"):
            gone.add(c["task"])
            why = c.get("why") or (f"called as a module it is slower than eager: {c['speedup']:.2f}x "
                                   f"[{c['interval'][0]:.2f}, {c['interval'][1]:.2f}], {c['eager_us']:.0f} us to "
                                   f"{c['module_us']:.0f} us")
            refused.append(f"{c['task']}: {why}")
        if "speedup" in c:
            entry.update(module_speedup=c["speedup"], module_interval=c["interval"], module_us=c["module_us"],
                         eager_us=c["eager_us"])
        if "error" in c:
            entry.update(error=c["error"], eager_error=c["eager_error"])
    index = writer.index
    for p in [p for p in index["programs"] if p["task"] in gone]:
        shutil.rmtree((writer.module / p["program"]).parent)
    index["programs"] = [p for p in index["programs"] if p["task"] not in gone]
    for m in index["models"]:
        m["cases"] = [c for c in m["cases"] if c["task"] not in gone]
    index["models"] = [m for m in index["models"] if m["cases"]]
    index["made_on"] = found["here"]
    keep_checked_ranges(writer, found["ranges"], gone, unchecked)


def run_of(times: list[dict[str, Any]], tuned: int) -> list[dict[str, Any]]:
    """The longest run of measured sizes that are not slower than eager; that with the tuned size, if it is measured."""
    runs: list[list[dict[str, Any]]] = [[]]
    for t in times:
        if t["interval"][1] < 1:
            runs.append([])
        else:
            runs[-1].append(t)
    with_tuned = [r for r in runs if any(t["batch"] == tuned for t in r)]
    if any(t["batch"] == tuned for t in times):
        return with_tuned[0] if with_tuned else []
    return max(runs, key=len)


def keep_checked_ranges(writer: Any, found: list[dict[str, Any]], gone: set[str], unchecked: list[str]) -> None:
    """Leaves ranges out that are wrong, and cuts off the ends at which they are slower than eager."""
    index, without = writer.index, set(gone)
    for r in found:
        entry = next(e for e in index["ranges"] if e["task"] == r["task"])
        if r["status"] == "cannot run":
            unchecked.append(f"{r['task']} over batches: {r['why']}")
        if r["status"] == "wrong":
            without.add(r["task"])
            index["without_range"].append(f"{r['task']}: {r['why']}")
        if r["status"] == "slower":
            kept, low, high = run_of(r["times"], entry["tuned"]), entry["low"], entry["high"]
            if kept and kept[0] is not r["times"][0]:
                low = kept[0]["batch"]
            if kept and kept[-1] is not r["times"][-1]:
                high = kept[-1]["batch"]
            if not kept or high // r["multiple"] - (low - 1) // r["multiple"] < 2:  # one size, which is the tuned one
                without.add(r["task"])
                index["without_range"].append(f"{r['task']}: {r['why']}")
            else:
                entry.update(low=low, high=high, cut=r["why"])
        if r.get("times"):
            entry["times"] = [t for t in r["times"] if entry["low"] <= t["batch"] <= entry["high"]]
    for r in [r for r in index["ranges"] if r["task"] in without]:
        folder = (writer.module / r["program"]).parent
        if folder.is_dir():
            shutil.rmtree(folder)
    index["ranges"] = [r for r in index["ranges"] if r["task"] not in without]
    for m in index["models"]:
        m["ranges"] = [task for task in m["ranges"] if task not in without]


def model_names(groups: list[list[Any]]) -> list[str]:
    """What a model's tasks have in common: "block.Block" of block.Block_4x8 and block.Block_16x8."""
    from torch_package.staged import word

    names: list[str] = []
    for cases in groups:
        common = os.path.commonprefix([c.staged.name for c in cases])
        if len(cases) > 1:
            common = common.rstrip("0123456789x_") or common
        name, n = word(common.rpartition(".")[2] or common) or "model", 2
        while name in names:
            name, n = f"{word(common)}_{n}", n + 1
        names.append(name)
    return names


def build(o: argparse.Namespace, root: pathlib.Path) -> tuple[Any, list[str], list[str]]:
    from torch_package.staged import Refused, case_of, staged_in
    from torch_package.writing import Writer

    refused, unchecked = list(o.refused), []
    groups: dict[str, list[Any]] = {}
    for folder in sorted(p for p in o.staging.iterdir() if (p / "variant.json").is_file()):
        name = json.loads((folder / "variant.json").read_text(encoding="utf-8"))["task"]
        try:
            case = case_of(staged_in(folder, o.staging / "blobs"))
            groups.setdefault(case.key(), []).append(case)
        except Refused as e:
            refused.append(f"{name}: {e}")
    writer = Writer(root, o)
    for name, cases in zip(model_names(list(groups.values())), groups.values()):
        try:
            writer.model(name, cases)
        except Refused as e:
            refused.append(f"{name}: {e}")
    if not writer.index["models"]:
        return writer, refused, unchecked
    writer.index["made_on"] = {}
    writer.fixed_parts()
    writer.close()
    if o.check:
        keep_checked(writer, check(root, o.name, o.seconds), refused, unchecked)
        writer.close()
    writer.index["refused"] = refused
    writer.index["unchecked"] = unchecked if o.check else ["all: exported with --no-check"]
    writer.close()
    return writer, refused, unchecked


def say(o: argparse.Namespace, writer: Any, refused: list[str], unchecked: list[str]) -> None:
    programs = writer.index["programs"]
    if o.json:
        print(json.dumps({"folder": str(o.out), "name": o.name, "variants": len(programs), "refusals": refused,
                          "not_built": o.not_built, "unchecked": unchecked, "programs": programs,
                          "ranges": writer.index["ranges"], "without_range": writer.index["without_range"]}, indent=2))
        return
    for p in programs:
        held = "" if p["precision"] == "eager" else f"; held to precision {p['precision']}"
        if "module_speedup" in p:
            low, high = p["module_interval"]
            print(f"{p['task']}: {p['module_speedup']:.2f}x [{low:.2f}, {high:.2f}] over eager as a module, "
                  f"{p['eager_us']:.0f} us to {p['module_us']:.0f} us{held}")
    for r in writer.index["ranges"]:
        of = f", multiples of {r['multiple']} ({r['why_multiples']})" if r["multiple"] > 1 else ""
        times = "".join(f"; of {t['batch']} {t['speedup']:.2f}x [{t['interval'][0]:.2f}, {t['interval'][1]:.2f}], "
                        f"{t['eager_us']:.0f} us to {t['module_us']:.0f} us" for t in r.get("times", []))
        cut = f"; cut: {r['cut']}" if "cut" in r else ""
        print(f"{r['task']} also for batches of {r['low']}..{r['high']}{of}{times}{cut}")
    for line in writer.index["without_range"]:
        print(f"for its tuned batch alone: {line}")
    for line in o.not_built:
        print(f"not compiled: {line}")
    for line in unchecked:
        print(f"not checked here: {line}")
    for line in refused:
        print(f"not exported: {line}")
    if programs:
        models = ", ".join(m["name"] for m in writer.index["models"])
        following = f"`pip install {o.out}`, `import {o.name}`" + (f"; for C++ {o.out}/cpp/example.cpp" if o.cpp else "")
        print(f"{len(programs)} variants of {models} exported to {o.out}. Next: {following}")
    else:
        print(f"no variant was exported: nothing was written to {o.out}")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("staging", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--library", type=pathlib.Path, required=True, help="libcudal1_cpu_kernels.so")
    parser.add_argument("--runtime", type=pathlib.Path, required=True, help="libcudal1_package_runtime.so")
    parser.add_argument("--cpp", type=pathlib.Path, help="libcudal1_package.so, for a package that C++ calls, too")
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", default="")
    parser.add_argument("--refused", action="append", default=[])
    parser.add_argument("--not-built", action="append", default=[])
    parser.add_argument("--without-range", action="append", default=[], help="why a variant has no range of batch sizes")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--no-check", dest="check", action="store_false")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--report", help="a file for what is printed otherwise")
    o = parser.parse_args(words)
    # TorchDynamo takes modules with "torch_package" in their names for those of torch.package.
    taken = o.name in sys.stdlib_module_names or o.name in ("torch", "cudal1") or "torch_package" in o.name
    if not o.name.isidentifier() or taken:
        print(f"cudal1: {o.name!r} cannot be imported as a package; choose another with --name", file=sys.stderr)
        return 2
    warnings.filterwarnings("ignore")
    sys.path.insert(0, str(HERE))
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch) / "package"
        root.mkdir()
        writer, refused, unchecked = build(o, root)
        if writer.index["programs"]:
            shutil.copytree(root, o.out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    with open(o.report, "w", encoding="utf-8") if o.report else contextlib.nullcontext(sys.stdout) as out:
        with contextlib.redirect_stdout(out):
            say(o, writer, refused, unchecked)
    return 0 if writer.index["programs"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
