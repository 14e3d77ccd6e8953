"""Where calls run: the processor, or a GPU. What differs between them, for the referee."""

from __future__ import annotations

import os
import re
from typing import Any

import torch

from submissions.protocol import Arena, copy_all, memory_file

COPIES, QUEUED_CYCLES = 6, 2_000_000
L2_TIMES = 2.5  # what is written between calls, in sizes of a GPU's second-level cache


class NoDevice(Exception):
    """A device that is not here, and which are."""


class Processor:
    """Calls are timed on one core, on which nodes of this machine take turns with the referee."""

    device, is_gpu = "cpu", False
    burst_ns = 0  # calls are timed one by one

    def __init__(self, flush_bytes: int):
        self.buffer = torch.ones(max(1, flush_bytes // 4))

    def flush(self) -> None:
        torch.amax(self.buffer)

    def synchronize(self) -> None:
        pass

    def free_bytes(self) -> int:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def copy_ns(self, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
        """Nothing is taken away here."""
        return 0.0

    def memory(self, size: int) -> tuple[int, Any]:
        fd = memory_file(size)
        return fd, Arena(fd, size)


class Gpu:
    """Processes on one GPU take turns by slices of time: a kernel that goes on behind a worker's answer can end before
    the referee's own copy of the outputs begins. So the time from the answer to the end of that copy is kept as well
    (Worker.late_ns)."""

    is_gpu = True
    burst_ns = 6_000_000  # that a burst takes about

    def __init__(self, index: int):
        self.index, self.device = index, f"cuda:{index}"
        l2 = torch.cuda.get_device_properties(index).L2_cache_size
        self.buffer = torch.zeros(max(1, int(L2_TIMES * l2) // 4), device=self.device)

    def flush(self) -> None:
        self.buffer.zero_()

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.index)

    def free_bytes(self) -> int:
        return torch.cuda.mem_get_info(self.index)[0]

    def copy_ns(self, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
        """What the device takes for these copies, at least: the shortest of some times by its own clock, with all of
        them queued behind other work, and with what fits into its cache there already."""
        times = []
        with torch.cuda.device(self.index):
            for _ in range(COPIES):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda._sleep(QUEUED_CYCLES)
                begin.record()
                copy_all(pairs)
                end.record()
                end.synchronize()
                times.append(begin.elapsed_time(end) * 1e6)
        return min(times)

    def memory(self, size: int) -> tuple[int, Any]:
        from submissions import device_memory

        fd, whole = device_memory.make(size, self.index)
        try:
            return fd, device_memory.DeviceArena(fd, whole, self.index)
        except BaseException:
            os.close(fd)
            raise


def place_of(device: str, flush_bytes: int) -> Any:
    if device == "cpu":
        return Processor(flush_bytes)
    return Gpu(int(device.removeprefix("cuda:")))


def check_device(device: str) -> None:
    """Raises NoDevice."""
    if device == "cpu":
        return
    if not re.fullmatch(r"cuda:\d+", device):
        raise NoDevice(f"{device} is no device: cpu, or a GPU such as cuda:0")
    count = torch.cuda.device_count()
    if int(device.removeprefix("cuda:")) >= count:
        raise NoDevice(f"there is no {device} here: " + (f"{count} GPUs, cuda:0 to cuda:{count - 1}" if count > 1 else
                                                         "one GPU, cuda:0" if count else "PyTorch finds no GPU"))
