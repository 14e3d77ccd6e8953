"""Kernels for the processor: the shared object that cudal1's host compiler made of a program's CUDA C++ and that was
measured, launched by libcudal1_cpu_kernels.so, which lies in the package. No compiler is needed."""

from __future__ import annotations

import ctypes
import pathlib
import platform
import sys
import threading
from typing import Any

import torch

from .program import PackageError

_SHARED = "_cudal1_cpu_kernels"  # an attribute of sys: one launcher for a process, however many packages
_MESSAGE_BYTES = 2048
_MAP_BYTES = 192
# What a level of x86-64 has beside the levels below it, as /proc/cpuinfo names it.
_LEVELS = {
    "x86-64": [],
    "x86-64-v2": ["sse4_2", "popcnt"],
    "x86-64-v3": ["sse4_2", "popcnt", "avx2", "fma", "bmi1", "bmi2"],
}
_SCALARS = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double}
_lock = threading.Lock()


def scalar(argument: dict[str, Any]) -> Any:
    """A launch's number as C has it; None of a tensor."""
    for kind, c_type in _SCALARS.items():
        if kind in argument:
            value = argument[kind]
            return c_type(float(value) if kind in ("f32", "f64") else int(value))
    return None


def tensor_of(argument: dict[str, Any]) -> str | None:
    return next((argument[k] for k in ("in", "out", "inout") if k in argument), None)


def missing_features(level: str) -> list[str]:
    """What this processor lacks of a level of x86-64."""
    if platform.machine() not in ("x86_64", "AMD64") or level not in _LEVELS:
        return [f"{level} (it is {platform.machine()})"]
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((line.partition(":")[2].split() for line in file if line.startswith("flags")), [])
    return [f for f in _LEVELS[level] if f not in flags]


def _launcher(library: pathlib.Path) -> ctypes.CDLL:
    with _lock:
        found = getattr(sys, _SHARED, None)
        if found is None:
            try:
                # Objects find the functions that kernels call (cudal1_rt_*) in it.
                found = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            except OSError as e:
                raise PackageError(f"{library.name} of the package cannot be loaded ({e}); export the package on a system "
                                   "that is no newer than this one") from e
            found.cudal1_kernels_load.restype = ctypes.c_void_p
            found.cudal1_kernels_find.restype = ctypes.c_void_p
            setattr(sys, _SHARED, found)
        return found


class Library:
    """The kernels of one program. Thread-safe; launches of all programs of a process are one after the other."""

    def __init__(self, object_file: pathlib.Path, launcher: pathlib.Path, level: str):
        missing = missing_features(level)
        if missing:
            raise PackageError(f"its kernels were compiled for {level}, and this processor lacks {', '.join(missing)}: "
                               "export the package on this machine")
        self._c = _launcher(launcher)
        self._problem = ctypes.create_string_buffer(_MESSAGE_BYTES)
        handle = self._c.cudal1_kernels_load(str(object_file).encode(), self._problem, _MESSAGE_BYTES)
        if not handle:
            raise PackageError(f"{object_file.name} cannot be loaded: {self._problem.value.decode()}")
        self._handle = ctypes.c_void_p(handle)
        # For native.py: the object, and the functions that find and launch its kernels and make tensor maps.
        self.addresses = [handle] + [ctypes.cast(f, ctypes.c_void_p).value for f in (
            self._c.cudal1_kernels_find, self._c.cudal1_kernels_launch, self._c.cudal1_kernels_map)]

    def launcher(self, step: dict[str, Any], types: list[dict[str, Any]]) -> Any:
        """A function of the launch's tensors."""
        kernel = self._c.cudal1_kernels_find(self._handle, step["launch"].encode(), self._problem, _MESSAGE_BYTES)
        if not kernel:
            raise PackageError(self._problem.value.decode())
        sizes = (ctypes.c_int64 * 7)(*step["grid"], *step["block"], step.get("shared_bytes", 0))
        call, handle, kernel = self._c.cudal1_kernels_launch, self._handle, ctypes.c_void_p(kernel)
        cooperative = 1 if step.get("cooperative") else 0
        order = [scalar(a) for a in step["args"]]
        addresses = [ctypes.addressof(s) if s is not None else None for s in order]
        maps = self._maps(step, types)
        count = sum(a is None for a in addresses)
        pointers, arguments = ctypes.c_void_p * max(count, 1), ctypes.c_void_p * max(len(order), 1)
        threads_now, problem = torch.get_num_threads, self._problem

        def launch(*tensors: torch.Tensor) -> None:
            values = pointers(*[t.data_ptr() for t in tensors])
            at, given, mapped = ctypes.addressof(values), [], []
            i = 0
            for address in addresses:
                if address is None:
                    if maps[i] is not None:
                        mapped.append(maps[i](tensors[i]))
                        given.append(ctypes.addressof(mapped[-1]))
                    else:
                        given.append(at + 8 * i)
                    i += 1
                else:
                    given.append(address)
            if call(handle, kernel, sizes, cooperative, arguments(*given), threads_now(), problem, _MESSAGE_BYTES):
                raise PackageError(f"launch of {step['launch']}: {problem.value.decode()}")

        launch.scalars = order  # keeps their memory
        return launch

    def _maps(self, step: dict[str, Any], types: list[dict[str, Any]]) -> list[Any]:
        """What makes the tensor map of each tensor, or None where its pointer is passed."""
        made, i = [], 0
        for a in step["args"]:
            if tensor_of(a) is None:
                continue
            made.append(self._map(a["map"], types[i]) if "map" in a else None)
            i += 1
        return made

    def _map(self, how: dict[str, Any], declared: dict[str, Any]) -> Any:
        rank = len(declared["shape"])
        numbers = ctypes.c_int64 * rank
        shape, strides, box = numbers(*declared["shape"]), numbers(*declared["strides"]), numbers(*how["box"])
        element = torch.empty(0, dtype=getattr(torch, declared["dtype"])).element_size()

        def made(t: torch.Tensor) -> Any:
            value = (ctypes.c_char * _MAP_BYTES)()
            problem = ctypes.create_string_buffer(_MESSAGE_BYTES)
            if self._c.cudal1_kernels_map(self._handle, rank, shape, strides, box, element, how.get("swizzle", 0),
                                          ctypes.c_void_p(t.data_ptr()), value, problem, _MESSAGE_BYTES):
                raise PackageError(problem.value.decode())
            return value

        return made
