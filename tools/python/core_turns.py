"""Turns on cores for timed calls, which the sessions of nodes take as well (sandbox/device/core_turn.cpp): who waits
goes first, and a turn ends with its process."""

from __future__ import annotations

import fcntl
import os
from typing import Iterable

FOLDER = "/tmp/cudal1-claims"  # sandbox/device/machine_claims.hpp
MODE = 0o666  # all users of the machine take turns


def opened(name: str) -> int:
    """A file that every user may lock, in a folder of all."""
    try:
        os.mkdir(FOLDER)
        os.chmod(FOLDER, 0o1777)
    except FileExistsError:
        pass
    path = os.path.join(FOLDER, name)
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    for _ in range(3):
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            pass
        try:
            file = os.open(path, flags | os.O_CREAT | os.O_EXCL, MODE)
            os.fchmod(file, MODE)
            return file
        except FileExistsError:
            pass
    raise OSError(f"cannot open {path}")


class CoreTurns:
    """`with` it, timed calls have these cores for themselves. None: no turns are needed."""

    def __init__(self, cores: Iterable[int]):
        # In one order, so that two that want the same ones do not wait for each other.
        self.files = [(opened(f"queue-core-{core}"), opened(f"turn-core-{core}")) for core in sorted(cores)]

    def __enter__(self) -> None:
        for queue, turn in self.files:
            fcntl.flock(queue, fcntl.LOCK_EX)
            fcntl.flock(turn, fcntl.LOCK_EX)
            fcntl.flock(queue, fcntl.LOCK_UN)

    def __exit__(self, *_: object) -> None:
        for _, turn in self.files:
            fcntl.flock(turn, fcntl.LOCK_UN)

    def close(self) -> None:
        for pair in self.files:
            for file in pair:
                os.close(file)
        self.files = []
