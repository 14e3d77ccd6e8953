"""What passes between a pool and the verdict: draws, what was measured and seen, and why a submission is not accepted."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from submissions import bursts

MODES = ({"train": False, "grad": "no_grad"}, {"train": True, "grad": "grad"}, {"train": True, "grad": "inference"})
USUAL = {"train": True, "grad": "no_grad"}


def name_of(mode: dict[str, Any]) -> str:
    return f"{'train' if mode['train'] else 'eval'}/{mode['grad']}"


class Refused(Exception):
    """The submission is not accepted: a class, and what showed it."""

    def __init__(self, kind: str, why: str):
        super().__init__(why)
        self.kind, self.evidence, self.notes = kind, [], []


class NotJudged(Exception):
    """The problem cannot be judged here."""


@dataclasses.dataclass
class Draw:
    """A burst: the inputs of one call after another, all of one kind."""

    kind: str
    members: list[list[torch.Tensor]]
    mode: dict[str, Any]
    slots: list[int]
    late: list[bursts.Late] = dataclasses.field(default_factory=list)
    timed: bool = False
    is_first: bool = False  # of its worker
    first: Draw | None = None  # the same inputs earlier, for A/B/A
    own_first: bool = False  # in its pair
    answers: list[list[torch.Tensor]] = dataclasses.field(default_factory=list)  # of the submission
    wanted: list[list[torch.Tensor]] = dataclasses.field(default_factory=list)  # of eager
    burst_ns: dict[str, int] = dataclasses.field(default_factory=dict)
    ns: dict[str, float] = dataclasses.field(default_factory=dict)  # of a call, without what the referee takes
    # What computing a call took: of the processor, by the kernel's account; on a GPU as ns.
    used_ns: dict[str, float] = dataclasses.field(default_factory=dict)
    late_ns: dict[str, int] = dataclasses.field(default_factory=dict)  # from the answer to the end of the copy


@dataclasses.dataclass
class Found:
    """What a pool has measured and seen."""

    ratios: list[float] = dataclasses.field(default_factory=list)
    own_first: list[bool] = dataclasses.field(default_factory=list)  # in the pairs of these
    all_ratios: list[float] = dataclasses.field(default_factory=list)  # of checks of that length, too, in their order
    eager_ns: list[int] = dataclasses.field(default_factory=list)
    own_ns: list[int] = dataclasses.field(default_factory=list)
    own_burst_ns: list[int] = dataclasses.field(default_factory=list)
    eager_late_ns: list[int] = dataclasses.field(default_factory=list)
    own_late_ns: list[int] = dataclasses.field(default_factory=list)
    # Of the processor, for the same inputs at first and again.
    first_ns: list[int] = dataclasses.field(default_factory=list)
    again_ns: list[int] = dataclasses.field(default_factory=list)
    eager_first_ns: list[int] = dataclasses.field(default_factory=list)
    eager_again_ns: list[int] = dataclasses.field(default_factory=list)
    notes: set[str] = dataclasses.field(default_factory=set)
    calls: int = 0
    burst: int = 1  # calls
    taken: bursts.Taken = dataclasses.field(default_factory=bursts.Taken)
    compared_kinds: set[str] = dataclasses.field(default_factory=set)
    passing_null_models: set[str] | None = None
