"""Finds submissions and their problems: KernelBench files and folders, run folders, and JSON lines; solutions of
FlashInfer-Bench and SOL-ExecBench with their definitions and workloads."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from typing import Any, Iterator

from benchmark_sets import solutions
from importing import definitions
from importing.problems import word

RUN_FILE = re.compile(r"level_(\d+)_problem_(\d+)_sample_(\d+)_kernel\.py$")
LEVEL = re.compile(r"level_?(\d+)")
NUMBER = re.compile(r"(\d+)(?=_)")
CUDA = ("__global__", "cuda_sources", ".cuda(", "cuda_runtime", "<<<", 'device="cuda', "device='cuda")
OTHERS = {"CuTe DSL": ("cutlass.cute", "import cutlass"), "TileLang": ("import tilelang",),
          "Triton": ("import triton", "from triton")}


class Unreadable(Exception):
    """What cannot be read, and what to do."""


@dataclasses.dataclass
class Submission:
    name: str
    source: str
    problem: str
    level: int = 0
    problem_id: int = 0
    sample: int = 0
    language: str = ""
    needs_gpu: bool = False
    refusal: str = ""  # why it cannot be judged on any device

    def refusal_on(self, device: str) -> str:
        """Why it cannot be judged there."""
        if not self.refusal and self.needs_gpu and device == "cpu":
            return f"{self.language} needs a GPU: --device cuda:0"
        return self.refusal


def language_of(source: str) -> tuple[str, bool]:
    """Its language, and whether it needs a GPU."""
    for name, words in OTHERS.items():
        if any(w in source for w in words):
            return name, True
    if any(w in source for w in CUDA):
        return "CUDA", True
    if "load_inline" in source or "cpp_extension" in source:
        return "C++", False
    return ("torch.compile" if "torch.compile" in source else "PyTorch"), False


def made(name: str, source: str, problem: str, **members: Any) -> Submission:
    s = Submission(name, source, problem, **members)
    s.language, s.needs_gpu = language_of(source)
    if not problem:
        s.refusal = "its problem was not found: name the problems' folder or file with --problems"
    elif "ModelNew" not in source:
        s.refusal = "it defines no ModelNew"
    return s


def defines_problem(text: str) -> bool:
    return bool(re.search(r"^class Model\b", text, re.M)) and bool(re.search(r"^def get_inputs\b", text, re.M))


def first_of(record: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((str(record[n]) for n in names if record.get(n)), "")


def number_in(text: str) -> int:
    """The level or id that a number or a text such as "level1" names; 0 for none."""
    found = re.search(r"\d+", str(text))
    return int(found.group()) if found else 0


def lines_of(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """The records of JSON lines, or of one JSON list."""
    text = path.read_text(encoding="utf-8")
    try:
        if text.lstrip().startswith("["):
            yield from json.loads(text)
            return
        for line in text.splitlines():
            if line.strip():
                yield json.loads(line)
    except ValueError as problem:
        raise Unreadable(f"{path} is neither JSON lines nor a JSON list: {problem}") from problem


class Problems:
    """Where problems are looked for: by level and id, or by a file's name."""

    def __init__(self, where: pathlib.Path | None):
        self.by_key: dict[tuple[int, int], str] = {}
        self.by_name: dict[str, str] = {}
        self.only = ""  # of one file, which is everybody's problem
        if where is None:
            return
        if not where.exists():
            raise Unreadable(f"--problems: there is no {where}")
        if where.is_dir():
            for path in sorted(where.rglob("*.py")):
                self.add(path)
        elif where.suffix == ".py":
            self.add(where)
            self.only = self.by_name.get(where.stem, "")
        else:
            for record in lines_of(where):
                code = first_of(record, ("code", "ref_code"))
                key = (number_in(record.get("level", record.get("level_id", 0))),
                       number_in(record.get("problem_id", record.get("task_id", 0))))
                self.by_key[key] = code
        if not self.by_key and not self.by_name:
            raise Unreadable(f"--problems: {where} has no problem (a Python file with Model and get_inputs)")

    def add(self, path: pathlib.Path) -> None:
        text = path.read_text(encoding="utf-8", errors="replace")
        if not defines_problem(text) or "class ModelNew" in text:
            return
        self.by_name[path.stem] = text
        level = LEVEL.search(str(path.parent.name)) or LEVEL.search(path.stem)
        number = NUMBER.match(path.stem)
        if number:
            self.by_key[int(level.group(1)) if level else 0, int(number.group(1))] = text

    def find(self, level: int, problem_id: int, name: str) -> str:
        for key in ((level, problem_id), (0, problem_id)):
            if problem_id and key in self.by_key:
                return self.by_key[key]
        return self.by_name.get(name, self.only)


def of_file(path: pathlib.Path, problems: Problems) -> Submission:
    text = path.read_text(encoding="utf-8", errors="replace")
    in_run = RUN_FILE.search(path.name)
    level, number, sample = (int(g) for g in in_run.groups()) if in_run else (0, 0, 0)
    if not in_run:
        found, id_ = LEVEL.search(path.parent.name) or LEVEL.search(path.stem), NUMBER.match(path.stem)
        level, number = int(found.group(1)) if found else 0, int(id_.group(1)) if id_ else 0
    problem = problems.find(level, number, path.stem)
    if not problem and defines_problem(text):
        problem = text
    return made(path.stem, text, problem, level=level, problem_id=number, sample=sample)


def of_record(record: dict[str, Any], at: int, problems: Problems) -> Submission:
    level, number = number_in(record.get("level_id", record.get("level", 0))), number_in(
        record.get("task_id", record.get("problem_id", 0)))
    source = first_of(record, ("custom_code", "kernel", "code"))
    problem = first_of(record, ("ref_code",)) or problems.find(level, number, "")
    s = made(f"level{level}_{number:03d}" if number else f"line {at + 1}", source, problem, level=level, problem_id=number)
    if not source:
        s.refusal = "the record has no custom_code"
    return s


def solution_files(where: pathlib.Path) -> list[pathlib.Path]:
    """Those that are solutions: the file, or those in the folder."""
    files = sorted(where.rglob("*.json")) if where.is_dir() else [where] if where.suffix == ".json" else []
    found = []
    for file in files:
        try:
            if solutions.is_solution(json.loads(file.read_text(encoding="utf-8"))):
                found.append(file)
        except ValueError:
            continue
    return found


def of_solution(path: pathlib.Path, problems: pathlib.Path | None) -> list[Submission]:
    """One for each workload, as their own evaluators run it on each; one that is refused where its definition is missing."""
    try:
        solution = solutions.read_solution(path)
        pairs = solutions.workloads_of(solution, problems)
    except definitions.Unusable as e:
        return [Submission(path.stem, "", "", language="solution", refusal=str(e))]
    found = []
    for definition, workload in pairs:
        name = f"{solution.name}@{definitions.problem_name(definition, workload, word)}"
        try:
            problem = definitions.problem_text(definition, workload)
            s = Submission(name, solutions.module_text(solution, definition, workload), problem, refusal=solutions.refusal_of(solution))
        except definitions.Unusable as e:
            s = Submission(name, "", "", refusal=str(e))
        s.language, s.needs_gpu = solutions.language_of(solution)
        found.append(s)
    return found


def read(where: pathlib.Path, problems: pathlib.Path | None) -> list[Submission]:
    """All submissions of a file or folder, in order. Unreadable, with what to do."""
    if not where.exists():
        raise Unreadable(f"there is no {where}")
    if found := solution_files(where):
        return [s for path in found for s in of_solution(path, problems)]
    known = Problems(problems)
    if where.is_dir():
        run = sorted(p for p in where.iterdir() if RUN_FILE.search(p.name))
        files = run or sorted(p for p in where.rglob("*.py") if "ModelNew" in p.read_text(encoding="utf-8", errors="replace"))
        found = [of_file(p, known) for p in files]
        for p in sorted(where.glob("*.jsonl")) if not files else ():
            found += [of_record(r, i, known) for i, r in enumerate(lines_of(p))]
    elif where.suffix == ".py":
        found = [of_file(where, known)]
    elif where.suffix in (".jsonl", ".json"):
        found = [of_record(r, i, known) for i, r in enumerate(lines_of(where))]
    else:
        raise Unreadable(f"{where} is no Python file, folder, .jsonl or .json")
    if not found:
        raise Unreadable(f"{where} has no submission (a Python file with ModelNew, or JSON lines with custom_code)")
    return found
