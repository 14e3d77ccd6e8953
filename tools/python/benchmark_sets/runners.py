"""The sets' own packages, where they are installed: their schema of solutions, and their runners, which need a GPU."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

from importing.definitions import Unusable, read_definition, workloads_file

PACKAGES = {"flashinfer-bench": "flashinfer_bench", "sol-execbench": "sol_execbench"}
INSTALL = {"flashinfer-bench": "python -m pip install flashinfer-bench",
           "sol-execbench": "pip install git+https://github.com/NVIDIA/SOL-ExecBench (Python 3.12)"}
SCHEMAS = {"flashinfer-bench": "flashinfer_bench.data", "sol-execbench": "sol_execbench.core.data"}


def missing(of_set: str) -> str:
    """Why the set's package is not used, and how to get it; "" if it is installed."""
    if importlib.util.find_spec(PACKAGES[of_set]) is not None:
        return ""
    return f"{of_set} is not installed in {sys.executable}, so its schema and its runner were not used: {INSTALL[of_set]}"


def schema_problem(of_set: str, text: str) -> str:
    """What the set's own schema refuses in a solution, "" for nothing. Its package must be installed."""
    try:
        schema = importlib.import_module(SCHEMAS[of_set]).Solution
    except ImportError as error:
        return f"its package cannot be imported: {error}"
    try:
        schema.model_validate_json(text)
    except ValueError as error:
        return " ".join(str(error).split())[:400]
    return ""


def _trace_set(solution: pathlib.Path, definition: pathlib.Path, folder: pathlib.Path) -> None:
    """A FlashInfer-Bench folder with one definition, its workloads and the solution."""
    workloads = workloads_file(definition)
    if workloads is None:
        raise Unusable(f"{definition} has no workloads beside it")
    for kind, file in (("definitions", definition), ("workloads", workloads), ("solutions", solution)):
        (folder / kind).mkdir(parents=True)
        shutil.copy(file, folder / kind / file.name)
    root = next((p.parent for p in definition.resolve().parents if p.name == "definitions"), None)
    if root is not None and (root / "blob").is_dir():
        (folder / "blob").symlink_to(root / "blob")


def _results(traces: list[dict[str, Any]], of_set: str) -> list[dict[str, Any]]:
    found = []
    for trace in traces:
        evaluation = trace.get("evaluation") or {}
        times = evaluation.get("performance") or {}
        found.append({"set": of_set, "definition": trace["definition"], "workload": trace["workload"]["uuid"],
                      "axes": trace["workload"]["axes"], "status": evaluation.get("status", "no evaluation"),
                      "ms": times.get("latency_ms", 0.0), "reference_ms": times.get("reference_latency_ms", 0.0),
                      "speedup": times.get("speedup_factor", 0.0), "log": str(evaluation.get("log", ""))[-500:]})
    return found


def _lines(files: list[pathlib.Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for f in files for line in f.read_text(encoding="utf-8").splitlines() if line.strip()]


def run(of_set: str, solution: pathlib.Path, definition: pathlib.Path, folder: pathlib.Path, limit_s: float) -> list[dict[str, Any]]:
    """What the set's own runner says, by workload. `folder`: a new one for its files. Unusable where it does not run."""
    name = read_definition(definition).name
    folder.mkdir(parents=True)
    if of_set == "flashinfer-bench":
        _trace_set(solution, definition, folder)
        words = ["from flashinfer_bench.cli.main import cli; cli()", "run", "--local", str(folder), "--definitions", name,
                 "--timeout", str(int(limit_s)), "--save-results"]
    else:
        workloads = workloads_file(definition)
        if workloads is None:
            raise Unusable(f"{definition} has no workloads beside it")
        words = ["from sol_execbench.cli import cli; cli()", "--definition", str(definition), "--workload", str(workloads),
                 "--solution", str(solution), "--timeout", str(int(limit_s)), "-o", str(folder / "traces" / "all.jsonl")]
    log = folder / "runner.log"
    here = pathlib.Path(sys.executable).parent  # SOL-ExecBench's starts `python`
    environment = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ.get('PATH', '')}"}
    with open(log, "wb") as output:
        try:
            ended = subprocess.run([sys.executable, "-c", *words], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   env=environment, timeout=100 * limit_s).returncode
        except subprocess.TimeoutExpired:
            raise Unusable(f"the runner of {of_set} did not end; {log} has its output") from None
    results = _results(_lines(sorted((folder / "traces").rglob("*.jsonl"))), of_set)
    if not results:
        last = (log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
        raise Unusable(f"the runner of {of_set} gave no result (exit code {ended}): {last[:300]}; {log} has its output")
    return results
