#!/usr/bin/env python3
"""Writes solutions of FlashInfer-Bench and SOL-ExecBench of exported files, for `cudal1 bench solutions`.

    write_solutions.py EXPORTED [--definitions PATH ...] [--timeout S] [--report FILE]

EXPORTED is the folder of `cudal1 export --format kernelbench` of tasks that were imported from definitions; the solutions
are EXPORTED/solutions/SET/DEFINITION.json. Where a set's own package is installed its schema checks each, and, with
--definitions on a machine with a GPU, its runner evaluates each on all workloads, unconfined. Exit codes: 0 written, and
nothing was refused; 1 a schema or a runner refused one; 2 there is nothing to write.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import sys
from typing import Any

from benchmark_sets import runners, writing
from importing.definitions import Unusable, definition_files, read_definition

sys.dont_write_bytecode = True
WRITTEN, REFUSED, NOTHING = 0, 1, 2


def say(text: str) -> None:
    print(f"solutions: {text}", file=sys.stderr, flush=True)


def definitions_in(paths: list[pathlib.Path]) -> dict[str, pathlib.Path]:
    """By name; of a name that comes twice the first."""
    found: dict[str, pathlib.Path] = {}
    for path in paths:
        for file in definition_files(path) if path.is_dir() else [path]:
            try:
                found.setdefault(read_definition(file).name, file)
            except Unusable as error:
                say(str(error))
    return found


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def checked(path: pathlib.Path, definitions: dict[str, pathlib.Path], limit_s: float) -> dict[str, Any]:
    """What the set's own package says of a solution."""
    of_set, text = path.parent.name, path.read_text(encoding="utf-8")
    solution = json.loads(text)
    record: dict[str, Any] = {"set": of_set, "definition": solution["definition"], "file": str(path), "schema": "unchecked",
                              "note": runners.missing(of_set), "results": []}
    if record["note"]:
        return record
    record["schema"] = runners.schema_problem(of_set, text) or "valid"
    if record["schema"] != "valid":
        return record
    definition = definitions.get(solution["definition"])
    if definition is None:
        record["note"] = "its runner needs the definition: give its file or folder with --definitions"
    elif not has_gpu():
        record["note"] = f"the runner of {of_set} needs a GPU, and there is none"
    else:
        folder = path.parent / f"{path.stem}.run"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            record["results"] = runners.run(of_set, path, definition, folder, limit_s)
        except Unusable as error:
            record["note"] = str(error)
    return record


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exported", type=pathlib.Path)
    parser.add_argument("--definitions", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--timeout", type=float, default=300.0)
    parser.add_argument("--report", type=pathlib.Path)
    o = parser.parse_args()
    try:
        written = writing.write_solutions(o.exported)
    except OSError as error:
        say(f"{o.exported} is no folder of `cudal1 export --format kernelbench`: {error}")
        return NOTHING
    if not written:
        say(f"{o.exported} has no file of a task that was imported from a definition")
        return NOTHING
    definitions = definitions_in(o.definitions)
    records = []
    for path in written:
        records.append(checked(path, definitions, o.timeout))
        say(f"{path}: schema {records[-1]['schema']}" + (f"; {records[-1]['note']}" if records[-1]["note"] else ""))
    if o.report:
        o.report.write_text(json.dumps({"solutions": records}, indent=1) + "\n", encoding="utf-8")
    refused = [r for r in records if r["schema"] not in ("valid", "unchecked")] + [
        x for r in records for x in r["results"] if x["status"] != "PASSED"]
    return REFUSED if refused else WRITTEN


if __name__ == "__main__":
    sys.exit(main())
