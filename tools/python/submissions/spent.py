"""Where the time of a judgement goes."""

from __future__ import annotations

import contextlib
import time
from typing import Iterator


class Spent:
    """Seconds by name. A part within another counts for itself only."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.within: list[float] = []  # of each open part: what parts in it took

    @contextlib.contextmanager
    def on(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        self.within.append(0.0)
        try:
            yield
        finally:
            whole = time.perf_counter() - begin
            self.seconds[name] = self.seconds.get(name, 0.0) + whole - self.within.pop()
            if self.within:
                self.within[-1] += whole
