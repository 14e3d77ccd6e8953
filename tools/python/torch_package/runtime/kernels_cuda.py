"""Kernels for NVIDIA's GPUs: the cubins that were measured, loaded and launched by the driver. For another architecture
the source beside them is compiled once, with the NVRTC that comes with PyTorch, and kept."""

from __future__ import annotations

import ctypes
import hashlib
import os
import pathlib
import struct
import tempfile
import threading
from typing import Any

import torch

from .kernels_cpu import scalar, tensor_of
from .program import PackageError

_BUNDLE = b"cudal1 cubins 1\n"
_BUNDLE_ALIGNMENT = 16
_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_COOPERATIVE, _PROGRAMMATIC = 2, 6  # CU_LAUNCH_ATTRIBUTE_*
_MAP_TYPES = {"uint8": 0, "int32": 3, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}
_MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_MAP_BYTES, _MAP_ALIGNMENT, _MOST_DIMENSIONS = 128, 64, 5
_lock = threading.Lock()


class _Attribute(ctypes.Structure):  # CUlaunchAttribute
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60)]


class _Config(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint)]


class _Driver:
    _made: _Driver | None = None

    def __init__(self) -> None:
        try:
            self.c = ctypes.CDLL("libcuda.so.1")
        except OSError as e:
            raise PackageError("there is no NVIDIA driver (libcuda.so.1) here") from e

    @classmethod
    def get(cls) -> _Driver:
        with _lock:
            if cls._made is None:
                cls._made = _Driver()
            return cls._made

    def check(self, status: int, what: str) -> None:
        if status:
            name = ctypes.c_char_p()
            self.c.cuGetErrorName(status, ctypes.byref(name))
            raise PackageError(f"{what}: {(name.value or b'an unknown error of the driver').decode()}")


def architecture_of(device: torch.device) -> str:
    """As cudal1 compiles: from 9.0 on with the instructions of that architecture alone."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def cubins_in(data: bytes) -> list[bytes]:
    """A program whose source was compiled in pieces has several."""
    if not data.startswith(_BUNDLE):
        return [data]
    at = len(_BUNDLE)
    count, = struct.unpack_from("<Q", data, at)
    sizes = struct.unpack_from(f"<{count}Q", data, at + 8)
    at += 8 + 8 * count
    found = []
    for size in sizes:
        at = -(-at // _BUNDLE_ALIGNMENT) * _BUNDLE_ALIGNMENT
        if at + size > len(data):
            raise PackageError("a bundle of cubins ends early: install the package again")
        found.append(data[at:at + size])
        at += size
    return found


# ---- other architectures --------------------------------------------------------------------------------------------


def cache_folder() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "cudal1" / "kernels"


def _nvrtc() -> ctypes.CDLL:
    if torch.version.cuda is None:
        raise PackageError("this PyTorch has no CUDA, so it brings no NVRTC")
    name = f"libnvrtc.so.{torch.version.cuda.partition('.')[0]}"
    near = sorted(pathlib.Path(torch.__file__).parents[1].glob(f"nvidia/*/lib/{name}"))
    for place in [*map(str, near), name]:
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    raise PackageError(f"{name}, which comes with PyTorch, was not found")


def nvrtc_version() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _nvrtc().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def compile_source(source: bytes, options: list[str]) -> bytes:
    """A cubin. Raises PackageError with the compiler's log."""
    c = _nvrtc()
    program = ctypes.c_void_p()
    if c.nvrtcCreateProgram(ctypes.byref(program), source, b"program.cu", 0, None, None):
        raise PackageError("NVRTC cannot be started")
    try:
        texts = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        status = c.nvrtcCompileProgram(program, len(options), texts)
        size = ctypes.c_size_t()
        if status:
            c.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value + 1)
            c.nvrtcGetProgramLog(program, log)
            raise PackageError(f"NVRTC {nvrtc_version()} cannot compile its kernels ({options[-1]}):\n{log.value.decode()}")
        c.nvrtcGetCUBINSize(program, ctypes.byref(size))
        cubin = ctypes.create_string_buffer(size.value)
        c.nvrtcGetCUBIN(program, cubin)
        return cubin.raw
    finally:
        c.nvrtcDestroyProgram(ctypes.byref(program))


def compiled_once(source: bytes, options: list[str], architecture: str) -> bytes:
    """From the cache, or by the compiler, whose result is kept."""
    options = [*options, f"--gpu-architecture={architecture}"]
    key = hashlib.sha256("\0".join([nvrtc_version(), *options, ""]).encode() + source).hexdigest()
    kept = cache_folder() / f"{key}.cubin"
    with _lock:
        if kept.is_file():
            # The digest stands in front of what was written whole.
            digest, cubin = kept.read_bytes()[:32], kept.read_bytes()[32:]
            if hashlib.sha256(cubin).digest() == digest:
                return cubin
        cubin = compile_source(source, options)
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as file:
                file.write(hashlib.sha256(cubin).digest() + cubin)
            os.replace(file.name, kept)
        except OSError:  # a disk that is full or read-only: it is compiled again next time
            pass
        return cubin


# ---- loaded kernels -------------------------------------------------------------------------------------------------


class Library:
    """The kernels of one program on one GPU. Launches are on PyTorch's current stream. Thread-safe."""

    def __init__(self, cubins: list[bytes], device: torch.device):
        self.cubins, self._device, self._threads = cubins, device, threading.local()
        self._driver, self._modules = _Driver.get(), []

    def _loaded(self) -> list[ctypes.c_void_p]:
        """Loaded for the first of its kernels, since native.py loads cubins itself."""
        if not self._modules:
            for cubin in self.cubins:
                module = ctypes.c_void_p()
                self._driver.check(self._driver.c.cuModuleLoadData(ctypes.byref(module), cubin), "loading a cubin")
                self._modules.append(module)
        return self._modules

    def _use_context(self) -> None:
        """A thread that has called nothing of CUDA yet has no context, which the driver's functions need."""
        if getattr(self._threads, "ready", False):
            return
        context = ctypes.c_void_p()
        self._driver.check(self._driver.c.cuCtxGetCurrent(ctypes.byref(context)), "cuCtxGetCurrent")
        if not context:
            torch.cuda.current_stream(self._device).query()  # PyTorch's, through the runtime
        self._threads.ready = True

    def _function(self, step: dict[str, Any]) -> ctypes.c_void_p:
        function = ctypes.c_void_p()
        for module in self._loaded():
            if self._driver.c.cuModuleGetFunction(ctypes.byref(function), module, step["launch"].encode()) == 0:
                break
        else:
            raise PackageError(f"its cubins have no kernel {step['launch']}")
        if step.get("shared_bytes", 0) > 0:
            self._driver.check(self._driver.c.cuFuncSetAttribute(function, _DYNAMIC_SHARED, step["shared_bytes"]),
                               f"{step['shared_bytes']} bytes of dynamic shared memory for {step['launch']}")
        return function

    def launcher(self, step: dict[str, Any], types: list[dict[str, Any]]) -> Any:
        """A function of the launch's tensors."""
        with torch.cuda.device(self._device):
            self._use_context()
            function = self._function(step)
        driver, device = self._driver, self._device
        order = [scalar(a) for a in step["args"]]
        addresses = [ctypes.addressof(s) if s is not None else None for s in order]
        maps = [self._map(a["map"], t) if "map" in a else None
                for a, t in zip([a for a in step["args"] if tensor_of(a) is not None], types)]
        count = sum(a is None for a in addresses)
        pointers, arguments = ctypes.c_void_p * max(count, 1), ctypes.c_void_p * max(len(order), 1)
        grid, block, shared_bytes = step["grid"], step["block"], step.get("shared_bytes", 0)
        sizes = [ctypes.c_uint(n) for n in (*grid, *block, shared_bytes)]
        attributes = [(_COOPERATIVE, "cooperative"), (_PROGRAMMATIC, "programmatic")]
        wanted = [id_ for id_, key in attributes if step.get(key)]
        what = f"launch of {step['launch']}"
        stream_of = torch._C._cuda_getCurrentRawStream

        def launch(*tensors: torch.Tensor) -> None:
            values = pointers(*[t.data_ptr() for t in tensors])
            at, given, mapped, i = ctypes.addressof(values), [], [], 0
            for address in addresses:
                if address is None:
                    if maps[i] is None:
                        given.append(at + 8 * i)
                    else:
                        mapped.append(maps[i](tensors[i]))
                        given.append(mapped[-1][1])
                    i += 1
                else:
                    given.append(address)
            self._use_context()
            stream = ctypes.c_void_p(stream_of(device.index))
            parameters = arguments(*given)
            if not wanted:
                status = driver.c.cuLaunchKernel(function, *sizes, stream, parameters, None)
            else:
                listed = (_Attribute * len(wanted))(*[_Attribute(id_, b"", 1, b"") for id_ in wanted])
                config = _Config((ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block), shared_bytes, stream.value,
                                 listed, len(wanted))
                status = driver.c.cuLaunchKernelEx(ctypes.byref(config), function, parameters, None)
            if status:
                driver.check(status, what)

        launch.scalars = order  # keeps their memory
        return launch

    def _map(self, how: dict[str, Any], declared: dict[str, Any]) -> Any:
        """What makes a tensor map: its memory, and its address there."""
        shape, strides, rank = declared["shape"], declared["strides"], len(declared["shape"])
        element = torch.empty(0, dtype=getattr(torch, declared["dtype"])).element_size()
        wide, narrow = ctypes.c_uint64 * _MOST_DIMENSIONS, ctypes.c_uint32 * _MOST_DIMENSIONS
        sizes, box = wide(*reversed(shape)), narrow(*reversed(how["box"]))  # innermost first
        lines = wide(*[s * element for s in list(reversed(strides))[1:]])
        steps = narrow(*[1] * rank)
        encode, check = self._driver.c.cuTensorMapEncodeTiled, self._driver.check

        def made(t: torch.Tensor) -> Any:
            memory = (ctypes.c_char * (_MAP_BYTES + _MAP_ALIGNMENT))()
            address = -(-ctypes.addressof(memory) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
            check(encode(ctypes.c_void_p(address), _MAP_TYPES.get(declared["dtype"], 7), ctypes.c_uint32(rank),
                         ctypes.c_void_p(t.data_ptr()), sizes, lines, box, steps, 0,
                         _MAP_SWIZZLES[how.get("swizzle", 0)], 2, 0), "cuTensorMapEncodeTiled")
            return memory, address

        return made
