"""Problems: their sources, their names, and the model and inputs that their Python makes."""

from __future__ import annotations

import dataclasses
import json
import linecache
import pathlib
import random
import re
import sys
import types
from typing import Any

import torch

from . import lines
from .refusal import Refused

SEED = 42  # KernelBench's


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


def word(text: str) -> str:
    """The text with only characters that a task's name may have."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("_.-")[:80]


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
            title = entry.get("name") or ""
            problems.append(
                _kernelbench(int(entry["level"]), int(entry["problem_id"]), title, entry["code"].encode())
            )
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise SystemExit(
                f"import_tasks: {path}, line {i}: should be an object with level, problem_id and "
                f"code ({type(e).__name__}: {e})"
            ) from e
    return problems


def _is_problem_name(path: pathlib.Path) -> bool:
    """True if it is not hidden, private or a source that an import has kept (a blob, named by its hash)."""
    return not any(part.startswith((".", "_")) for part in path.parts) and not re.fullmatch(
        "[0-9a-f]{64}", path.stem
    )


def find_problems(sources: list[str]) -> list[Problem]:
    """The problems in files and folders (*.py at any depth), in the order given, sorted within a folder; FILE.py:NAME and
    package.module:NAME are one."""
    problems: list[Problem] = []
    for source in sources:
        place, target = _split_target(source)
        path = pathlib.Path(place)
        if path.is_dir():
            files = [f for f in path.rglob("*.py") if f.is_file() and _is_problem_name(f.relative_to(path))]
            problems += sorted((_from_file(f.resolve()) for f in files), key=lambda p: p.name)
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
    for problem in problems:
        if problem.name in names:
            raise SystemExit(f"import_tasks: two problems would be called {problem.name}; import them separately")
        names[problem.name] = problem
    return problems


def set_seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


class OnCpu(torch.overrides.TorchFunctionMode):
    """A program runs on any device, so a GPU that a file names means "the device"."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "cuda" and args and isinstance(args[0], torch.Tensor):
            self._check(args[1] if len(args) > 1 else None)
            return args[0]
        kwargs = {k: self._plain(v) if k == "device" else v for k, v in (kwargs or {}).items()}
        if name == "to":
            args = tuple(self._plain(a) if isinstance(a, (str, torch.device)) else a for a in args)
        return func(*args, **kwargs)

    def _plain(self, device: Any) -> Any:
        if isinstance(device, (str, torch.device)) and torch.device(device).type == "cuda":
            self._check(torch.device(device).index)
            return torch.device("cpu")
        if isinstance(device, int) and not isinstance(device, bool):
            self._check(device)
            return torch.device("cpu")
        return device

    @staticmethod
    def _check(index: Any) -> None:
        if isinstance(index, torch.device):
            index = index.index
        if index not in (None, 0):
            raise Refused(f"it uses device cuda:{index}{lines.of_caller()}; a task is for one GPU, so put everything on one")


class OtherInputs(Exception):
    """get_inputs gives no list of what forward is called with by position."""


class ImportsNeighbour(Exception):
    """The file imports another of its own folder."""


def _is_neighbour(folder: str | None, name: str | None) -> bool:
    if not folder or not name:
        return False
    top = pathlib.Path(folder) / name.split(".")[0]
    return top.is_dir() or top.with_suffix(".py").is_file()


class Loaded:
    """A problem's module, executed."""

    def __init__(self, problem: Problem, seed: int = SEED) -> None:
        self.checkpoint: Any = None  # whose weights the model gets; see checkpoint.py
        self.module = types.ModuleType(f"cudal1_problem_{problem.name}")
        self.module.__file__ = problem.file or f"{problem.name}.py"
        sys.modules[self.module.__name__] = self.module
        text = problem.code.decode("utf-8", "replace").splitlines(keepends=True)
        linecache.cache[self.module.__file__] = (len(problem.code), None, text, self.module.__file__)
        lines.own(self.module.__file__)
        try:
            with running("the file"), OnCpu():
                set_seed(seed)
                exec(compile(problem.code, self.module.__file__, "exec"), self.module.__dict__)
        except Refused as e:
            if isinstance(e.__cause__, ModuleNotFoundError) and _is_neighbour(problem.folder, e.__cause__.name):
                raise ImportsNeighbour from e
            raise

    def is_complete(self) -> bool:
        return all(hasattr(self.module, wanted) for wanted in ("Model", "get_inputs", "get_init_inputs"))

    def model(self, seed: int = SEED) -> torch.nn.Module:
        """As KernelBench makes it: seed, arguments, seed, weights; on the CPU, in training mode."""
        with running("Model"), torch.no_grad(), OnCpu():
            set_seed(seed)
            arguments = self.module.get_init_inputs()
            set_seed(seed)
            if isinstance(arguments, dict):
                model = self.module.Model(**arguments)
            else:
                model = self.module.Model(*arguments)
        if not isinstance(model, torch.nn.Module):
            raise Refused("its Model is not a torch.nn.Module")
        if self.checkpoint is not None:
            self.checkpoint.put(model)
        return model

    def inputs(self, seed: int = SEED) -> list[Any]:
        with running("get_inputs"), torch.no_grad(), OnCpu():
            set_seed(seed)
            inputs = self.module.get_inputs()
        if not isinstance(inputs, (list, tuple)):
            raise OtherInputs
        return list(inputs)


class running:
    """Turns what the problem's own code raises into a refusal with the location."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, e: BaseException | None, trace: Any) -> None:
        if e is None or isinstance(e, (Refused, KeyboardInterrupt, GeneratorExit)):
            return
        if isinstance(e, ModuleNotFoundError):
            raise Refused(
                f"it needs the Python package {e.name}: install it into {sys.executable} "
                f"(python -m pip install {e.name}) and import again"
            ) from e
        raise Refused(f"{self.what} raised {one_line(e)}{lines.of_error(e)}") from e


def one_line(e: BaseException, limit: int = 300) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    text = f"{type(e).__name__}: {lines[0]}" if lines else type(e).__name__
    return text if len(text) <= limit else text[:limit] + "..."

