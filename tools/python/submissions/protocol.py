"""What referee and worker say to each other, and where tensors lie in the memory that they share.

Requests and replies are JSON, one object a line, on a pair of stream sockets. Timed calls have three more steps: the
worker says READY, the referee sends GO on the same socket, and the worker answers with one byte, DONE or FAILED, before
its reply. Nothing that
a worker says is believed but the names of what it returned: contents are read from shared memory, times are the
referee's.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import mmap
import os
import socket
from typing import Any

import torch

READY, GO, DONE, FAILED = b"r", b"g", b".", b"!"
LONGEST_LINE = 1 << 20
ALIGNMENT = 64
SMALL = 1 << 20  # bytes
SEALS = 0x0002 | 0x0004 | 0x0001  # shrink, grow, further seals
F_ADD_SEALS = 1033
DTYPES = {str(t).removeprefix("torch."): t for t in (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool)}


class Broken(Exception):
    """The other side has ended, or says what the protocol has not."""


class Line:
    """Lines of JSON on a stream socket."""

    def __init__(self, stream: socket.socket):
        self.stream, self.kept = stream, b""

    def say(self, what: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        data = json.dumps(what).encode() + b"\n"
        try:
            if fds:
                self.stream.sendmsg([data[:1]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
                data = data[1:]
            self.stream.sendall(data)
        except OSError as problem:
            raise Broken(f"it does not listen any more ({problem.strerror})") from problem

    def byte(self) -> bytes:
        """The next byte; waits as long as the socket does."""
        if self.kept:
            first, self.kept = self.kept[:1], self.kept[1:]
            return first
        return self.stream.recv(1)

    def hear(self, fds: list[int] | None = None) -> dict[str, Any]:
        while b"\n" not in self.kept:
            if len(self.kept) > LONGEST_LINE:
                raise Broken("its reply has no end")
            data, ancillary, _, _ = self.stream.recvmsg(1 << 16, socket.CMSG_SPACE(4 * 4))
            for level, kind, content in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    got = array.array("i")
                    got.frombytes(content[:len(content) - len(content) % 4])
                    for fd in got:
                        if fds is None:
                            os.close(fd)
                        else:
                            fds.append(fd)
            if not data:
                raise Broken("it ended")
            self.kept += data
        line, _, self.kept = self.kept.partition(b"\n")
        try:
            said = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise Broken("its reply is no JSON") from problem
        if not isinstance(said, dict):
            raise Broken("its reply is no object")
        return said


# ---- tensors in shared memory ---------------------------------------------------------------------------------------


def size_of(leaf: dict[str, Any]) -> int:
    """Bytes of a tensor of that dtype and shape, contiguous."""
    count = 1
    for n in leaf["shape"]:
        count *= n
    return count * DTYPES[leaf["dtype"]].itemsize


def laid_out(leaves: list[dict[str, Any]], begin: int) -> tuple[list[int], int]:
    """The offsets of contiguous tensors one after the other, and the end."""
    offsets = []
    for leaf in leaves:
        begin = -(-begin // ALIGNMENT) * ALIGNMENT
        offsets.append(begin)
        begin += size_of(leaf)
    return offsets, -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE


def memory_file(size: int) -> int:
    """Of that size for ever, so that nobody who maps it can be made to fault."""
    fd = os.memfd_create("cudal1-submission", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, F_ADD_SEALS, SEALS)
    return fd


class Arena:
    """A mapped memory file, seen as tensors."""

    def __init__(self, fd: int, size: int):
        self.size = size
        self.map = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self.bytes = torch.frombuffer(self.map, dtype=torch.uint8)

    def view(self, leaf: dict[str, Any], offset: int) -> torch.Tensor:
        if size_of(leaf) == 0:
            return torch.empty(leaf["shape"], dtype=DTYPES[leaf["dtype"]])
        dtype = DTYPES[leaf["dtype"]]  # a tensor of its own each time, whose version counter says nothing
        return torch.frombuffer(self.map, dtype=dtype, count=size_of(leaf) // dtype.itemsize,
                                offset=offset).view(leaf["shape"])


copy_one, copy_together = torch.Tensor.copy_, torch._foreach_copy_


def copy_all(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Each second tensor into the first. On a GPU small ones go together: a launch takes longer than their copies."""
    together = []
    for into, t in pairs:
        if len(pairs) > 1 and into.is_cuda and t.is_cuda and 0 < t.nbytes < SMALL:
            together.append((into, t))
        else:
            copy_one(into, t)
    if together:
        copy_together([into for into, _ in together], [t for _, t in together])


def is_dense(t: torch.Tensor) -> bool:
    """Each element has a place of its own, and none is left over between them: some order of the dimensions."""
    expected = 1
    for stride, size in sorted(zip(t.stride(), t.shape)):
        if size == 1:
            continue
        if stride != expected:
            return t.numel() == 0
        expected *= size
    return True


def leaf_of(t: torch.Tensor) -> dict[str, Any]:
    return {"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape), "strides": list(t.stride()),
            "dense": is_dense(t), "device": t.device.type}


def flattened(value: Any, leaves: list[Any], path: str = "") -> Any:
    """A tree of JSON in which each tensor is {"tensor": i}; the tensors go to `leaves`. Raises TypeError for what has
    no such form: an object of another kind, a subclass of Tensor that computes when it is read."""
    if type(value) is torch.Tensor or type(value) is torch.nn.Parameter:
        if value.layout is not torch.strided or value.device.type == "meta" or value.is_quantized:
            raise TypeError(f"{path or 'it'} is a tensor of layout {value.layout} on {value.device}")
        leaves.append(value)
        return {"tensor": len(leaves) - 1}
    if isinstance(value, torch.Tensor):
        raise TypeError(f"{path or 'it'} is a {type(value).__name__}, no plain torch.Tensor")
    if value is None or type(value) in (bool, int, float, str):
        return {"value": value}
    if isinstance(value, (list, tuple)):
        return {"list" if isinstance(value, list) else "tuple":
                [flattened(item, leaves, f"{path}[{i}]") for i, item in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": [[str(k), flattened(v, leaves, f"{path}[{k!r}]")] for k, v in value.items()]}
    raise TypeError(f"{path or 'it'} is a {type(value).__name__}")


def rebuilt(tree: Any, leaves: list[Any]) -> Any:
    if "tensor" in tree:
        return leaves[tree["tensor"]]
    if "value" in tree:
        return tree["value"]
    if "dict" in tree:
        return {k: rebuilt(v, leaves) for k, v in tree["dict"]}
    items = [rebuilt(item, leaves) for item in tree.get("list", tree.get("tuple"))]
    return items if "list" in tree else tuple(items)


def keep_freed_memory() -> None:
    """glibc may give a large block back in every call, by chance of its layout (pytorch_calls.keep_freed_memory)."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(-4, 0)
        libc.mallopt(-1, 2**31 - 1)
