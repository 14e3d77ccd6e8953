"""Problems: the sources that are named, and what their tasks are called. Needs no torch, which takes seconds to load."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import unicodedata
import warnings

from . import definitions
from .refusal import Refused


@dataclasses.dataclass(frozen=True)
class Problem:
    name: str  # of the task
    code: bytes
    kind: str  # "kernelbench" or "python"
    level: int | None = None
    number: int | None = None
    folder: str | None = None  # of the file, if it is one
    file: str | None = None  # its name
    target: str = ""  # what to take instead of Model
    module: str = ""  # a module of Python's path, in place of code
    refusal: str = ""  # why there is no code


def word(text: str) -> str:
    """The text with only characters that a task's name may have."""
    kept = re.sub(r"[^\w.-]+", "_", unicodedata.normalize("NFC", text)).strip("_.-")[:80]
    return kept.encode()[:160].decode(errors="ignore")


def _kernelbench(level: int, number: int, title: str, code: bytes) -> Problem:
    title = word(re.sub(rf"^0*{number}_", "", title))
    name = f"level{level}_{number:03d}" + (f"_{title}" if title else "")
    return Problem(name, code, "kernelbench", level, number)


def _from_file(path: pathlib.Path, target: str = "") -> Problem:
    level = re.fullmatch(r"level(\d+)", path.parent.name)
    number = re.match(r"(\d+)_", path.name)
    if level and number and not target:
        return _kernelbench(int(level[1]), int(number[1]), path.stem, path.read_bytes())
    name = word(f"{path.stem}.{target}" if target else path.stem) or "model"
    return Problem(name, path.read_bytes(), "python", folder=str(path.parent), file=path.name, target=target)


def _split_target(source: str) -> tuple[str, str]:
    """FILE.py:NAME or package.module:NAME as the two; else all of it, and ""."""
    place, _, name = source.rpartition(":")
    dotted = all(part.isidentifier() for part in place.split("."))
    return (place, name) if name.isidentifier() and (place.endswith(".py") or dotted) else (source, "")


def _from_lines(path: pathlib.Path) -> list[Problem]:
    problems = []
    for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            title = (entry.get("name") or "").removesuffix(".py")
            problems.append(
                _kernelbench(int(entry["level"]), int(entry["problem_id"]), title, entry["code"].encode())
            )
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise SystemExit(
                f"import_tasks: {path}, line {i}: should be an object with level, problem_id and "
                f"code ({type(e).__name__}: {e})"
            ) from e
    return problems


def _of_definition(path: pathlib.Path, workloads: pathlib.Path | None) -> list[Problem]:
    """A problem for each workload; one with a refusal where the definition cannot be used."""
    try:
        pairs = definitions.pairs_of(path, workloads)
    except definitions.Unusable as e:
        name = path.parent.name if path.name == "definition.json" else path.stem
        return [Problem(word(name) or "definition", b"", "python", refusal=str(e))]
    problems: dict[str, Problem] = {}
    for definition, workload in pairs:
        name = definitions.problem_name(definition, workload, word)
        if name in problems:  # its axes are another's, and other inputs are stored
            name = f"{name}_{word(workload.uuid)}"
        try:
            problems[name] = Problem(name, definitions.problem_text(definition, workload).encode(), "python")
        except definitions.Unusable as e:
            problems[name] = Problem(name, b"", "python", refusal=str(e))
    return list(problems.values())


def _is_problem_name(path: pathlib.Path) -> bool:
    """True if it is not hidden, private or a source that an import has kept (a blob, named by its hash)."""
    return not any(part.startswith((".", "_")) for part in path.parts) and not re.fullmatch(
        "[0-9a-f]{64}", path.stem
    )


def _files_of_folder(folder: pathlib.Path) -> list[pathlib.Path]:
    """Its Python files at any depth; of a checkout of KernelBench the problems alone."""
    place = folder if folder.resolve().name == "KernelBench" and (folder / "level1").is_dir() else folder / "KernelBench"
    if (place / "level1").is_dir():
        return list(place.glob("level[0-9]*/[0-9]*_*.py"))
    return [f for f in folder.rglob("*.py") if f.is_file() and _is_problem_name(f.relative_to(folder))]


def find_problems(sources: list[str], workloads: pathlib.Path | None = None) -> list[Problem]:
    """The problems in files and folders (*.py at any depth), in the order given, sorted within a folder; FILE.py:NAME and
    package.module:NAME are one. `workloads`: of a definition, where they are elsewhere."""
    problems: list[Problem] = []
    for source in sources:
        place, target = _split_target(source)
        path = pathlib.Path(place)
        if path.is_dir() and (found := definitions.definition_files(path)):
            problems += [p for file in found for p in _of_definition(file, None)]
        elif path.suffix == ".json" and path.is_file():
            problems += _of_definition(path, workloads)
        elif path.is_dir():
            problems += sorted((_from_file(f.resolve()) for f in _files_of_folder(path)), key=lambda p: p.name)
        elif path.suffix == ".jsonl":
            problems += _from_lines(path)
        elif path.is_file():
            problems.append(_from_file(path.resolve(), target))
        elif target and not place.endswith(".py"):
            name = word(f"{place.rpartition('.')[2]}.{target}")
            problems.append(Problem(name, b"", "python", target=target, module=place))
        else:
            raise SystemExit(f"import_tasks: {source} is no file, folder, FILE.py:NAME or package.module:NAME")
    names: dict[str, Problem] = {}
    for problem in list(problems):
        if problem == names.get(problem.name):  # a definition that a set has twice
            problems.remove(problem)
        elif problem.name in names:
            raise SystemExit(f"import_tasks: two problems would be called {problem.name}; import them separately")
        names[problem.name] = problem
    return problems


def check_syntax(problem: Problem) -> None:
    if problem.refusal:
        raise Refused(problem.refusal)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(problem.code, problem.file or f"{problem.name}.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as e:  # ValueError: of null bytes
        line = getattr(e, "lineno", None)
        where = f" ({problem.file or problem.name}:{line}: `{(e.text or '').strip()}`)" if line else ""
        raise Refused(f"it is no valid Python: {getattr(e, 'msg', e)}{where}") from e
