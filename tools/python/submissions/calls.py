"""Bursts of calls on one worker of a pool: where tensors lie in the memory that it shares with the referee, and what
the referee writes there before and reads there afterwards."""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Callable

import torch

from submissions.bursts import Late, copied_at_once
from submissions.protocol import laid_out, size_of
from submissions.workers import Worker

SLOTS = 3  # places for inputs at least, so that addresses and contents are independent
PAGE = 4096
BY_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous().view(-1).view(BY_SIZE[t.element_size()])


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.numel() == 0 or torch.equal(bits(a), bits(b))


def differing(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> list[int]:
    """Which pairs have other bits. On a GPU with one wait for all."""
    if len(pairs) < 2 or not pairs[0][0].is_cuda:
        return [i for i, (a, b) in enumerate(pairs) if not same_bits(a, b)]
    flags = torch.stack([(bits(a) != bits(b)).any() for a, b in pairs])
    return [i for i, differs in enumerate(flags.tolist()) if differs]


def all_finite(tensors: list[torch.Tensor]) -> bool:
    flags = [torch.isfinite(t).all() for t in tensors if t.is_floating_point()]
    return not flags or bool(torch.stack(flags).all())


@dataclasses.dataclass
class Layout:
    """Weights, then slots for the inputs of single calls with gaps between them, then places for their outputs."""

    leaves: list[dict[str, Any]]  # of one call's inputs
    slots: list[list[int]]
    out_leaves: list[dict[str, Any]]
    places: list[list[int]]
    outputs_begin: int
    end: int


def layout_of(begin: int, leaves: list[dict[str, Any]], out_leaves: list[dict[str, Any]], calls: int,
              numbers: random.Random) -> Layout:
    """From `begin`, behind the weights, for bursts of `calls` at most."""
    at, slots, places = begin, [], []
    for _ in range(max(SLOTS, calls)):
        offsets, at = laid_out(leaves, at + PAGE * numbers.randrange(4))
        slots.append(offsets)
    outputs_begin = at
    for _ in range(calls):
        offsets, at = laid_out(out_leaves, at)
        places.append(offsets)
    return Layout(leaves, slots, out_leaves, places, outputs_begin, at)


class Side:
    """One worker, with its memory."""

    def __init__(self, worker: Worker, numbers: random.Random, flush: Callable[[], None]):
        self.worker, self.numbers, self.flush = worker, numbers, flush
        self.outputs: list[list[torch.Tensor]] = []  # of each call of the last burst
        self.copies = 0  # of outputs, at the end of the last burst
        self.changed: list[tuple[int, int]] = []  # calls and inputs that are not what was written

    def share(self, layout: Layout) -> dict[str, Any]:
        self.layout, self.inputs_there, self.outputs_there = layout, [], []
        reply = self.worker.share(layout.end)
        view = self.worker.arena.view
        self.inputs_there = [[view(leaf, o) for leaf, o in zip(layout.leaves, slot)] for slot in layout.slots]
        self.outputs_there = [[view(leaf, o) for leaf, o in zip(layout.out_leaves, place)] for place in layout.places]
        return reply

    def poison(self, places: list[int]) -> None:
        value = self.numbers.choice((0xFF, 0x7F, self.numbers.randrange(1, 255)))
        for place in places:
            for leaf, offset in zip(self.layout.out_leaves, self.layout.places[place]):
                self.worker.arena.bytes[offset:offset + size_of(leaf)].fill_(value)

    def run(self, members: list[list[torch.Tensor]], slots: list[int], tree: Any, mode: dict[str, Any],
            late: list[Late]) -> tuple[int, dict[str, Any]]:
        """A burst of a call on each member, which lies in its slot. Its time, and the worker's reply."""
        places = self.numbers.sample(range(len(self.outputs_there)), min(len(members), len(self.outputs_there)))
        there = [self.inputs_there[slot] for slot in slots]
        results = [self.outputs_there[place] for place in places]

        def write() -> None:
            self.poison(places)
            for views, inputs in zip(there, members):
                for view, t in zip(views, inputs):
                    view.copy_(t)
            for w in late:
                there[w.call][w.input].view(-1)[w.begin:w.end].copy_(w.before)

        def read() -> None:
            self.outputs = [[t.clone() for t in result] for result in results]

        at_once = copied_at_once(len(places), self.numbers)
        self.copies = len(places) - len(at_once)
        request = {"leaves": self.layout.leaves, "tree": tree, "inputs": [self.layout.slots[slot] for slot in slots],
                   "output_leaves": self.layout.out_leaves, "outputs": [self.layout.places[place] for place in places]
                   or [[] for _ in members], "late": [w.as_request() for w in late], "at_once": at_once,
                   **mode}
        ns, reply = self.worker.call(request, write, read, self.flush)
        pairs = [(view, t) for views, inputs in zip(there, members) for view, t in zip(views, inputs)]
        width = len(self.layout.leaves)
        self.changed = [divmod(i, width) for i in differing(pairs)]
        return ns, reply
