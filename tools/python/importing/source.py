"""The model and inputs that a problem's Python makes."""

from __future__ import annotations

import linecache
import pathlib
import random
import sys
import types
from typing import Any

import torch

from . import lines
from .problems import Problem
from .refusal import Refused

SEED = 42  # KernelBench's


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
        return torch.utils._pytree.tree_map(_with_own_elements, list(inputs))


def _with_own_elements(x: Any) -> Any:
    """A tensor whose elements share memory, as an expanded mask's do, is copied: a task's inputs have their own."""
    if not isinstance(x, torch.Tensor) or x.layout != torch.strided or x.is_nested:
        return x
    extent = 1
    for stride, size in sorted((stride, size) for stride, size in zip(x.stride(), x.shape) if size > 1):
        if stride < extent:
            return x.contiguous()
        extent = stride * (size - 1) + extent
    return x


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

