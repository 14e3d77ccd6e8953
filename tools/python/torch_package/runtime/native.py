"""Programs run by libcudal1_package_runtime.so, which lies in the package: one call where program.py has a line of Python for
each step. It is for one version of PyTorch with CUDA; with others program.py runs the steps."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import pathlib
import sys
import threading
import weakref
from typing import Any, Callable

import torch

from .program import ALIGNMENT_BYTES, PackageError

_MODULE, _FORMAT = "cudal1_package_runtime", 1  # of the process: its operators are registered once
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
    found = sys.modules.get(_MODULE)
    if found is None:
        try:
            spec = importlib.util.spec_from_file_location(_MODULE, library)
            found = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(found)
        except ImportError as e:
            return str(e)
        sys.modules[_MODULE] = found
    return "" if found.format == _FORMAT else "another package has loaded another version of it"


def call_module() -> Callable | None:
    """quick_call.cpp's function of that name; None where the library is not loaded."""
    return getattr(sys.modules.get(_MODULE), "call_module", None)


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

    def quick_calls(self) -> int:
        return torch.ops.cudal1_package.quick_calls(self._program)

    def quick(self, inputs: list[torch.Tensor], anchors: list[tuple], places: list[tuple], weights: list[torch.Tensor],
              kept: list[torch.Tensor], graph: Any, returned: Callable | None) -> Any:
        """An object whose call(arguments) gives what forward returns, or None for a call that is not like this one."""
        number = graph.number if isinstance(graph, Graph) else 0
        return sys.modules[_MODULE].QuickCall(tuple(inputs), tuple(anchors), tuple(places), self._program, tuple(weights),
                                              tuple(kept), number, returned)

    def graph(self, weights: list[torch.Tensor], kept: list[torch.Tensor]) -> Callable:
        """A function of the inputs. Weights that kernels cannot read where they are would be copied once: no graph then."""
        if any([w.data_ptr() % ALIGNMENT_BYTES for w in weights]):
            return lambda inputs: self.steps(inputs, weights, kept)
        return Graph(self._program, weights, kept)


class Graph:
    """A program with one set of weights as one CUDA graph, whose pointers to inputs and outputs are set in each call."""

    def __init__(self, program: int, weights: list[torch.Tensor], kept: list[torch.Tensor]):
        self.number = torch.ops.cudal1_package.graph(program, weights, kept)
        weakref.finalize(self, torch.ops.cudal1_package.drop_graph, self.number)
        self._replay = torch.ops.cudal1_package.replay.default

    def __call__(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return self._replay(self.number, inputs)

    def notes(self) -> list[str]:
        return torch.ops.cudal1_package.notes(self.number)

