"""Runs programs with `cudal1 evaluate` and reads the verdicts."""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import re
import subprocess
from typing import Any, Iterator

from corpus import CONTROL, KNOWN, Variant
from own_tasks import OWN_TASKS, write_own_tasks
from programs import Task, Tensor

PROGRAMS_A_CALL = 6
CALL_LIMIT_S = 900
OUTPUT = re.compile(r"^(\w+) (\w+)\[([\d, ]*)\]")
OTHER_DRAW = re.compile(r"draw (\w+) \(seed \d+\): (\d \w+)")
NOT_EVALUATED = "not evaluated"  # in place of an outcome: the command failed


class CommandFailed(Exception):
    """The error message of a command of cudal1."""


def profile_of(device: str) -> str:
    return "cpu" if device == "cpu" else "cuda"


class Cudal1:
    """The installed programs with a separate data folder; close() stops the node."""

    def __init__(self, bin_folder: pathlib.Path, device: str, work: pathlib.Path, tasks: pathlib.Path | None = None,
                 settings: list[str] | None = None):
        self.program = bin_folder.resolve() / "cudal1"
        self.device = device
        self.work = work
        self.tasks_folder = tasks
        self.settings = [part for s in settings or [] for part in ("--set", s)]
        self.own_tasks_folder = work / "tasks"
        write_own_tasks(self.own_tasks_folder)

    def json_of(self, *arguments: str) -> Any:
        command = [str(self.program), *arguments, "--data", str(self.work / "data"), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=CALL_LIMIT_S, check=False)
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError:
            said = (done.stderr or done.stdout).strip()
            raise CommandFailed(f"exit code {done.returncode}: {said[-600:]}") from None

    def folder_of(self, task: str) -> list[str]:
        if any(own["name"] == task for own in OWN_TASKS):
            return ["--tasks", str(self.own_tasks_folder)]
        return ["--tasks", str(self.tasks_folder)] if self.tasks_folder else []

    def tasks(self, device: str | None = None) -> dict[str, Task]:
        """With the sizes for a device such as "cuda:0", which this machine need not have."""
        device = device or self.device
        found = {}
        for folder in (self.folder_of(""), self.folder_of(OWN_TASKS[0]["name"])):
            for described in self.json_of("tasks", "--device", device, *folder)["tasks"]:
                found[described["name"]] = task_of(described)
        return found

    def verdicts(self, task: str, programs: list[pathlib.Path]) -> list[dict[str, Any]]:
        answer = self.json_of("evaluate", task, *map(str, programs), *self.folder_of(task), "--device", self.device,
                              *self.settings)
        return [one["result"] for one in answer["programs"]]

    def close(self) -> None:
        command = [str(self.program), "stop", "--node", "--data", str(self.work / "data")]
        subprocess.run(command, capture_output=True, timeout=120, check=False)


def task_of(described: dict[str, Any]) -> Task:
    def tensors(kind: str) -> dict[str, Tensor]:
        return {t["name"]: Tensor(t["type"]["type"], tuple(t["type"]["shape"])) for t in described[kind]}
    outputs = {}
    for text in described["outputs"]:  # "y float32[8, 32, 32, 32]"
        match = OUTPUT.match(text)
        if not match:
            raise ValueError(f"{described['name']}: cannot parse the output {text!r}")
        name, dtype, shape = match.groups()
        outputs[name] = Tensor(dtype, tuple(int(size) for size in shape.split(",") if size.strip()))
    return Task(described["name"], described["profile"], tensors("inputs"), tensors("weights"), outputs)


# ---- results --------------------------------------------------------------------------------------------------------


def result_of(variant: Variant, verdict: dict[str, Any], device: str) -> dict[str, Any]:
    gates = verdict["gates"]
    failed = next((g for g in gates if not g["passed"]), None)
    gate = failed["gate"] if failed else ""
    other = OTHER_DRAW.search(failed["reason"]) if failed and gate == "5 draws" else None
    result = {"name": variant.name, "task": variant.task, "kind": variant.kind, "outcome": verdict["result"],
              "gate": gate, "draw": f"{other[1]}: {other[2]}" if other else "", "reason": verdict["reason"],
              "gates_by_chance": list(variant.gates) if variant.by_chance else []}
    result["as_declared"] = is_as_declared(variant, result, device)
    return result


def is_as_declared(variant: Variant, result: dict[str, Any], device: str) -> bool:
    """Gates are declared for `cpu` only, except those by chance, which are for every device."""
    profile = profile_of(device)
    if result["outcome"] not in variant.outcomes[profile]:
        return False
    judged = variant.gates and (profile == "cpu" or variant.by_chance)
    return not judged or result["gate"] in variant.gates


def write_programs(variants: list[Variant], tasks: dict[str, Task], folder: pathlib.Path) -> dict[str, pathlib.Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for v in variants:
        if v.task not in tasks:
            raise KeyError(f"{v.name}: there is no task {v.task}; there are {', '.join(tasks)}")
        files[v.name] = folder / f"{v.name}.cu1"
        files[v.name].write_text(v.program(tasks[v.task]).text())
    return files


def batches(variants: list[Variant]) -> Iterator[list[Variant]]:
    """Batches of one task each, in order, so that the device makes the draws of each task once."""
    batch: list[Variant] = []
    for v in variants:
        if batch and (batch[0].task != v.task or len(batch) == PROGRAMS_A_CALL):
            yield batch
            batch = []
        batch.append(v)
    if batch:
        yield batch


def evaluate_batch(cudal1: Cudal1, batch: list[Variant], files: dict[str, pathlib.Path]) -> list[dict[str, Any]]:
    """One command for all; if it fails, one for each, to find the program that makes it fail."""
    try:
        verdicts = cudal1.verdicts(batch[0].task, [files[v.name] for v in batch])
        return [result_of(v, verdict, cudal1.device) for v, verdict in zip(batch, verdicts, strict=True)]
    except (CommandFailed, subprocess.TimeoutExpired) as problem:
        if len(batch) > 1:
            return [result for v in batch for result in evaluate_batch(cudal1, [v], files)]
        verdict = {"result": NOT_EVALUATED, "gates": [], "reason": str(problem)}
        return [result_of(batch[0], verdict, cudal1.device)]


def evaluate(cudal1: Cudal1, variants: list[Variant], jobs: int, progress: Any) -> list[dict[str, Any]]:
    """Runs `jobs` commands at a time: while the device checks one program, others are compiled."""
    files = write_programs(variants, cudal1.tasks(), cudal1.work / "programs")
    results: list[dict[str, Any]] = []
    parts = list(batches(variants))
    # The first batch separately: it starts the node that all others use.
    first = evaluate_batch(cudal1, parts[0], files)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in (lambda: iter([first]), lambda: pool.map(lambda b: evaluate_batch(cudal1, b, files), parts[1:])):
            for part in done():
                results += part
                progress(len(results), len(variants), part)
    return results


def surprises(results: list[dict[str, Any]]) -> list[str]:
    """The verdicts that are not as declared, one line each."""
    lines = []
    for r in results:
        if r["as_declared"]:
            continue
        verdict = r["outcome"] + (f" by gate {r['gate']}" if r["gate"] else "")
        what = "" if r["kind"] in (CONTROL, KNOWN) else f" ({r['kind']})"
        lines.append(f"{r['name']}{what}: {verdict}: {r['reason'][:300]}")
    return lines
