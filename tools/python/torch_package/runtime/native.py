"""Programs run by libcudal1_package_runtime.so, which lies in the package, with PyTorch's operators: a call of Python is one call of
it, where program.py is a line of Python for each step. The library is for one version of PyTorch with CUDA; with others
program.py runs the steps."""

from __future__ import annotations

import pathlib
import threading
import weakref
from typing import Any, Callable

import torch

from .program import ALIGNMENT_BYTES, PackageError

_lock = threading.Lock()
_loaded: dict[tuple[str, str], str] = {}  # by file and version: why not; "" if it is


def problem_with(library: pathlib.Path, version: str) -> str:
    """Why the library cannot be used; "" if it can, and then it is loaded. `version`: of the PyTorch that it is for."""
    with _lock:
        key = str(library), version
        if key not in _loaded:
            _loaded[key] = _load(library, version)
        return _loaded[key]


def _load(library: pathlib.Path, version: str) -> str:
    if not library.is_file():
        return f"{library.name} is not there"
    here = ".".join(torch.__version__.split(".")[:2])
    if here != version:
        return f"it is for PyTorch {version}, and this is {torch.__version__}"
    if torch.version.cuda is None:
        return "it is for a PyTorch with CUDA, and this one has none"
    if hasattr(torch.ops.cudal1_package, "load"):  # of another package, which has the same
        return ""
    try:
        torch.ops.load_library(str(library))
    except OSError as e:
        return str(e)
    return ""


class Function:
    """A program on one device, as program.Function: setup(weights) and steps(inputs, weights, kept). `kernels`: a library of
    kernels_cpu.py or kernels_cuda.py."""

    def __init__(self, plan: str, has_setup: bool, kernels: Any, device: torch.device):
        cubins = [torch.frombuffer(bytearray(c), dtype=torch.uint8) for c in getattr(kernels, "cubins", [])]
        self._kernels = kernels  # keeps what the addresses point to
        index = -1 if device.type == "cpu" else device.index
        try:
            self._program = torch.ops.cudal1_package.load(plan, cubins, index, getattr(kernels, "addresses", []))
        except RuntimeError as e:
            raise PackageError(str(e)) from e
        weakref.finalize(self, torch.ops.cudal1_package.drop_program, self._program)
        self.has_setup = has_setup
        self._call, self._set_up = torch.ops.cudal1_package.call.default, torch.ops.cudal1_package.set_up.default

    def setup(self, weights: list[torch.Tensor]) -> list[torch.Tensor]:
        return self._set_up(self._program, weights) if self.has_setup else []

    def is_checked(self) -> bool:
        return True  # each call checks the layouts of its steps' results

    def steps(self, inputs: list[torch.Tensor], weights: list[torch.Tensor],
              kept: list[torch.Tensor]) -> list[torch.Tensor]:
        return self._call(self._program, inputs, weights, kept)

    def graph(self, weights: list[torch.Tensor], kept: list[torch.Tensor]) -> Callable:
        """A function of the inputs. Weights that kernels cannot read where they are would be copied once: no graph then."""
        if any([w.data_ptr() % ALIGNMENT_BYTES for w in weights]):
            return lambda inputs: self.steps(inputs, weights, kept)
        return Graph(self._program, weights, kept)


class Graph:
    """A program with one set of weights as one CUDA graph, whose pointers to inputs and outputs are set in each call."""

    def __init__(self, program: int, weights: list[torch.Tensor], kept: list[torch.Tensor]):
        self._graph = torch.ops.cudal1_package.graph(program, weights, kept)
        weakref.finalize(self, torch.ops.cudal1_package.drop_graph, self._graph)
        self._replay = torch.ops.cudal1_package.replay.default

    def __call__(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return self._replay(self._graph, inputs)

    def notes(self) -> list[str]:
        return torch.ops.cudal1_package.notes(self._graph)

