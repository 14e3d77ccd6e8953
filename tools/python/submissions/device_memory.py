"""Memory of a GPU that two processes map: the referee makes it, a worker gets its descriptor. By the driver's virtual
memory calls, whose descriptors go through a socket, also into another namespace of processes (handles of cudaIpc do not).
Source: the CUDA driver API, chapter Virtual Memory Management.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch

from submissions.protocol import DTYPES, size_of

PINNED, ON_DEVICE, BY_DESCRIPTOR, READ_WRITE = 1, 1, 1, 3


class Allocation(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location_type", ctypes.c_int),
                ("location_id", ctypes.c_int), ("windows_only", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location_type", ctypes.c_int), ("location_id", ctypes.c_int), ("flags", ctypes.c_int)]


def driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def checked(cuda: Any, result: int, what: str) -> None:
    if result != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(result, ctypes.byref(text))
        raise OSError(f"{what}: {(text.value or b'error').decode()} ({result})")


def allocation(index: int) -> Allocation:
    return Allocation(type=PINNED, handle_types=BY_DESCRIPTOR, location_type=ON_DEVICE, location_id=index)


def make(size: int, index: int = 0) -> tuple[int, int]:
    """A descriptor of new memory and its size, which is `size` rounded up to what the driver maps."""
    torch.cuda.init()
    cuda, properties, step = driver(), allocation(index), ctypes.c_size_t()
    checked(cuda, cuda.cuMemGetAllocationGranularity(ctypes.byref(step), ctypes.byref(properties), 0), "granularity")
    size = -(-size // step.value) * step.value
    handle, fd = ctypes.c_uint64(), ctypes.c_int(-1)
    checked(cuda, cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties),
                                   ctypes.c_uint64(0)), f"allocating {size >> 20} MiB")
    try:
        checked(cuda, cuda.cuMemExportToShareableHandle(ctypes.byref(fd), handle, BY_DESCRIPTOR, ctypes.c_uint64(0)),
                "exporting memory")
    finally:
        cuda.cuMemRelease(handle)  # the descriptor keeps it
    return fd.value, size


def dense_strides(shape: list[int]) -> list[int]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return strides[::-1]


class DeviceArena:
    """Mapped memory of a GPU, seen as tensors; as protocol.Arena. It must outlive these."""

    def __init__(self, fd: int, size: int, index: int = 0):
        torch.cuda.init()
        torch.zeros(1, device=f"cuda:{index}")  # makes its context current
        self.size, self.where = size, torch.device("cuda", index)
        self.cuda, self.address = driver(), ctypes.c_uint64()
        handle = ctypes.c_uint64()
        checked(self.cuda, self.cuda.cuMemImportFromShareableHandle(ctypes.byref(handle), ctypes.c_void_p(fd),
                                                                    BY_DESCRIPTOR), "importing memory")
        length, access = ctypes.c_size_t(size), Access(ON_DEVICE, index, READ_WRITE)
        checked(self.cuda, self.cuda.cuMemAddressReserve(ctypes.byref(self.address), length, ctypes.c_size_t(0),
                                                         ctypes.c_uint64(0), ctypes.c_uint64(0)), "reserving addresses")
        checked(self.cuda, self.cuda.cuMemMap(self.address, length, ctypes.c_size_t(0), handle, ctypes.c_uint64(0)),
                "mapping memory")
        checked(self.cuda, self.cuda.cuMemSetAccess(self.address, length, ctypes.byref(access), ctypes.c_size_t(1)),
                "access to memory")
        self.cuda.cuMemRelease(handle)  # the mapping keeps it
        self.owner = os.getpid()

    def __del__(self) -> None:
        if getattr(self, "owner", -1) == os.getpid():
            self.cuda.cuCtxSynchronize()
            self.cuda.cuMemUnmap(self.address, ctypes.c_size_t(self.size))
            self.cuda.cuMemAddressFree(self.address, ctypes.c_size_t(self.size))

    @property
    def bytes(self) -> torch.Tensor:
        return self.view({"dtype": "uint8", "shape": [self.size]}, 0)

    def view(self, leaf: dict[str, Any], offset: int) -> torch.Tensor:
        """A tensor with a storage of its own, that ends where it ends."""
        dtype, shape, size = DTYPES[leaf["dtype"]], leaf["shape"], size_of(leaf)
        if size == 0:
            return torch.empty(shape, dtype=dtype, device=self.where)
        storage = torch._C._construct_storage_from_data_pointer(self.address.value + offset, self.where, size)
        return torch.empty(0, dtype=dtype, device=self.where).set_(storage, 0, shape, dense_strides(shape))
