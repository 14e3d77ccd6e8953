"""A package of variants that `cudal1 export --format torch` wrote: what its index says, opened on demand."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import pathlib
import threading
from typing import Any, Iterator

import torch

from . import kernels_cpu, kernels_cuda, native
from .batch import RangeCase, RangeOperator
from .checks import Held, compare_modules, held_to
from .constants import read_tensors
from .dispatch import Arguments, Calls, Case, Dispatcher
from .module import optimized, optimized_class
from .operators import Operator
from .program import PackageError

FORMAT = 1
CPU_KERNELS = "libcudal1_cpu_kernels.so"


def file_digest(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Package:
    """Of the folder of an imported package. Thread-safe."""

    def __init__(self, name: str, folder: pathlib.Path):
        self.name, self.folder = name, folder
        self.index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        if self.index["format"] != FORMAT:
            raise PackageError(f"{name} has format {self.index['format']}, and its own code reads {FORMAT}: install it again")
        self.calls = Calls()
        self._lock = threading.RLock()
        self._dispatchers: dict[str, Dispatcher] = {}
        self._operators: dict[str, Operator] = {}
        self._ranges: dict[str, RangeOperator] = {}

    # ---- what is in it

    @property
    def models(self) -> list[str]:
        return [m["name"] for m in self.index["models"]]

    def entry(self, name: str) -> dict[str, Any]:
        for m in self.index["models"]:
            if m["name"] == name:
                return m
        raise PackageError(f"{self.name} has no model {name}; it has {', '.join(self.models)}")

    def operator(self, task: str) -> Operator:
        """The variant of one task."""
        with self._lock:
            if task not in self._operators:
                entry = next((p for p in self.index["programs"] if p["task"] == task), None)
                if entry is None:
                    raise PackageError(f"{self.name} has no variant of {task}")
                document = json.loads((self.folder / entry["program"]).read_text(encoding="utf-8"))
                self._operators[task] = Operator(entry["operator"], document, lambda device: self._library(entry, device),
                                                 self._plan(entry))
            return self._operators[task]

    def range_operator(self, task: str) -> RangeOperator:
        """The variant of one task for a range of batch sizes."""
        with self._lock:
            if task not in self._ranges:
                entry = self.range_entry(task)
                template = json.loads((self.folder / entry["program"]).read_text(encoding="utf-8"))
                self._ranges[task] = RangeOperator(entry, template, lambda device: self._library(entry, device),
                                                   self._plan(entry))
            return self._ranges[task]

    def range_entry(self, task: str) -> dict[str, Any]:
        return next(r for r in self.index["ranges"] if r["task"] == task)

    def _range_case(self, task: str, cases: list[dict[str, Any]]) -> RangeCase:
        c = next(c for c in cases if c["task"] == task)
        return RangeCase(self.range_operator(task), c["device_type"], c["weights"], c["modes"])

    def range_dispatcher(self, name: str, task: str) -> Dispatcher:
        """Of one range alone, to check it: the tuned shape runs it, too."""
        whole = self.dispatcher(name)
        alone = Dispatcher(f"{name} over batches of {task}", whole.arguments, [], whole.returned, self.calls, whole.constants)
        alone.ranges = [self._range_case(task, self.entry(name)["cases"])]
        return alone

    def _plan(self, entry: dict[str, Any]) -> str | None:
        """What the package's library runs; None where it cannot run here."""
        return (self.folder / entry["plan"]).read_text(encoding="utf-8") if not self.native_problem() else None

    def native_problem(self) -> str:
        """Why calls run as lines of Python, which takes longer; "" if they do not."""
        runtime = self.index["runtime"]
        return native.problem_with(self.folder / runtime["library"], runtime["torch"])

    def _library(self, entry: dict[str, Any], device: torch.device) -> Any:
        kernels = entry.get("kernels")
        if device.type != entry["device_type"]:
            raise PackageError(f"{entry['task']} was made for {entry['device_type']}, and not for {device.type}")
        if kernels is None:
            return _NoKernels()
        measured = self.folder / kernels["object"]
        if device.type == "cpu":
            return kernels_cpu.Library(measured, self.folder / CPU_KERNELS, kernels["architecture"])
        here = kernels_cuda.architecture_of(device)
        if built := cubin_for(kernels, here):
            return kernels_cuda.Library(kernels_cuda.cubins_in((self.folder / built).read_bytes()), device)
        if not kernels.get("source"):
            raise PackageError(f"{entry['task']} has kernels for {kernels['architecture']} alone, since they include "
                               f"headers that a package lacks, and this GPU is {here}: search and export on it")
        source = (self.folder / kernels["source"]).read_bytes()
        return kernels_cuda.Library([kernels_cuda.compiled_once(source, kernels["options"], here)], device)

    def dispatcher(self, name: str) -> Dispatcher:
        with self._lock:
            if name not in self._dispatchers:
                entry = self.entry(name)
                cases = [Case(self.operator(c["task"]), c["device_type"], c["weights"], c["modes"]) for c in entry["cases"]]
                constants = {}
                if entry.get("constants"):
                    constants = read_tensors(self.folder / entry["constants"])
                arguments = Arguments(entry["arguments"]["names"], entry["arguments"]["forms"])
                made = Dispatcher(name, arguments, cases, entry.get("returns"), self.calls, constants)
                made.ranges = [self._range_case(task, entry["cases"]) for task in entry.get("ranges", [])]
                self._dispatchers[name] = made
            return self._dispatchers[name]

    # ---- modules

    def optimize(self, model: torch.nn.Module, name: str | None = None, example: tuple | None = None) -> torch.nn.Module:
        """A module that shares the model's parameters, buffers and submodules, and whose forward runs the variants where
        they fit. `name`: of the package's models; needless where it has one. With `example`, a tuple of arguments, the two
        are called once and compared. Raises PackageError where the model is another one, or differs."""
        name = name or self._only()
        found = self.dispatcher(name)
        cases, why = found.cases, ""
        for case in cases:
            weights = [found.weight(model, n, torch.device("cpu")) for n in case.weights]
            missing = [n for n, w in zip(case.weights, weights) if w is None]
            wrong = "" if missing else case.wrong_weight([w.detach() for w in weights], _device_of(weights))
            why = f"it has no parameter or buffer {missing[0]}" if missing else wrong
            if not why:
                break
        if why:
            raise PackageError(f"{type(model).__name__} is not the model {name} of {self.name}: {why}")
        new = optimized(self.name, found, model)
        if example is not None:
            self._compare(model, new, example, self.held_to(name))
        return new

    def _only(self) -> str:
        if len(self.models) != 1:
            raise PackageError(f"{self.name} has several models ({', '.join(self.models)}): name one")
        return self.models[0]

    @staticmethod
    def _compare(model: torch.nn.Module, new: torch.nn.Module, example: tuple, held: Held) -> None:
        problem = compare_modules(model, new, example, held)
        if problem:
            raise PackageError(f"the variant's outputs are not those of {type(model).__name__}: {problem}")

    def model_class(self, name: str | None = None) -> type:
        """The model's own class, from the source in the package, with its forward by variants."""
        name = name or self._only()
        source = self.source(name)
        return optimized_class(self.name, self.dispatcher(name), source.Model)

    def source(self, name: str) -> Any:
        """The module of the model's source, executed."""
        return importlib.import_module(f"{self.name}.models.{self.entry(name)['module']}")

    def held_to(self, name: str) -> Held:
        """What error is accepted of a model's variants: the largest that is of one of them."""
        tasks = {c["task"] for c in self.entry(name)["cases"]}
        held = [held_to(p) for p in self.index["programs"] if p["task"] in tasks]
        return max(held, key=lambda h: (h.bound, h.precision == "eager"))

    # ---- what happened

    def report(self) -> Report:
        return Report(self)

    @contextlib.contextmanager
    def eager(self) -> Iterator[None]:
        """Within it, calls of this thread run the models' own forward."""
        before = getattr(self.calls.is_off, "on", 0)
        self.calls.is_off.on = before + 1
        try:
            yield
        finally:
            if before:
                self.calls.is_off.on = before
            else:
                del self.calls.is_off.on  # calls look whether there is anything

    def changed_files(self) -> list[str]:
        """Files that are missing or are not those that were exported."""
        changed = []
        for file, digest in self.index["files"].items():
            path = self.folder / file
            if not path.is_file():
                changed.append(f"{file} is missing")
            elif file_digest(path) != digest:
                changed.append(f"{file} was changed (SHA-256 {file_digest(path)[:12]}, exported {digest[:12]})")
        return changed


def cubin_for(kernels: dict[str, Any], architecture: str) -> str:
    """The file for GPUs of an architecture: what was measured, or was compiled for another one; "" if there is none."""
    return kernels["object"] if architecture == kernels["architecture"] else kernels["others"].get(architecture, "")


class _NoKernels:
    """The library of a program of ATen's operators alone."""


def _device_of(weights: list[torch.Tensor]) -> torch.device:
    return weights[0].device if weights else torch.device("cpu")


class Report:
    """How many calls ran a variant, and how many the model's own forward, and why."""

    def __init__(self, package: Package):
        calls, operators = package.calls, [*package._operators.values(), *package._ranges.values()]
        self.calls = {o.name: o.calls for o in operators if o.calls}
        self.eager = dict(calls.eager)
        self.setups = {o.name: o.setups for o in operators if o.setups}
        # Calls that torch.compile made of the operator on tensors that it does not fit.
        self.reference = {o.name: o.reference_calls for o in operators if o.reference_calls}
        self.in_python = package.native_problem()

    def __str__(self) -> str:
        lines = [f"{n} calls of {name}" for name, n in self.calls.items()]
        lines += [f"{n} calls by the model's own forward: {why}" for why, n in self.eager.items()]
        lines += [f"{n} calls of {name} by the task's own program" for name, n in self.reference.items()]
        lines += [f"set-up of {name} ran {n} times" for name, n in self.setups.items()]
        if lines and self.in_python:
            lines.append(f"its steps run one by one from Python, which takes longer: {self.in_python}")
        return "\n".join(lines) or "no calls yet"

    __repr__ = __str__
