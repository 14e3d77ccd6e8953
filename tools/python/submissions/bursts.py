"""Bursts: calls on distinct inputs, one after the other, between the referee's GO and the answer, with one synchronize
at the end. A single call of a GPU is short beside what the referee itself takes: two messages between processes, the
driver's switch between their contexts, the copy of the outputs. On the processor a burst is one call.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import torch

MOST_CALLS = 64
TRIED_CALLS = 8  # of the burst by which a call's time is estimated
MOST_BYTES = 4 << 30  # of a burst's inputs and outputs
SHARE_OF_FREE = 1 / 32  # of the device's memory: each of three processes has such a place, and the referee keeps copies
LEAST_LEFT = 0.25  # of a burst's time is never taken away
HANDSHAKE_QUANTILE = 0.1
SOME_OF = 16  # one late write, and one output that is copied at once, for so many calls, and one more
LATE_PART = 128  # a late write changes one of so many elements


@dataclasses.dataclass
class Taken:
    """What the referee certainly takes of a burst, in nanoseconds: lower bounds, measured in eager's worker and in the
    referee itself, never in the submission's. So a speedup is never made larger than it is."""

    handshake_ns: float = 0.0  # of a burst
    copy_ns: float = 0.0  # of one call's outputs

    def per_call(self, ns: float, calls: int, copies: int) -> float:
        """Of a burst that took `ns`, at whose end the outputs of `copies` of its calls were copied."""
        return max(ns - self.handshake_ns - copies * self.copy_ns, LEAST_LEFT * ns) / calls


def low_quantile(times: list[int]) -> float:
    return float(sorted(times)[int(HANDSHAKE_QUANTILE * len(times))]) if times else 0.0


def most_calls(bytes_of_call: int, free_bytes: int) -> int:
    """How many calls' inputs and outputs a burst may have, by memory."""
    bound = min(MOST_BYTES, int(free_bytes * SHARE_OF_FREE))
    return max(1, min(MOST_CALLS, bound // max(1, bytes_of_call)))


def calls_for(burst_ns: float, call_ns: float, most: int) -> int:
    """How many calls of `call_ns` make a burst of about `burst_ns`."""
    return max(1, min(most, round(burst_ns / max(1.0, call_ns))))


def call_ns(one_ns: float, many_ns: float, calls: int) -> float:
    """Of bursts of one call and of `calls`: what each call more has taken."""
    return max((many_ns - one_ns) / (calls - 1), many_ns / calls / 10) if calls > 1 else one_ns


@dataclasses.dataclass
class Late:
    """Elements begin to end of one input get their value only in the burst, before its call and behind those before:
    who computes ahead on the inputs of later calls, which are in the same memory, computes on other values."""

    call: int
    input: int
    begin: int
    end: int
    value: float
    before: torch.Tensor  # what is there when the burst begins

    def as_request(self) -> list[Any]:
        return [self.call, self.input, self.begin, self.end, self.value]


def some_of(calls: range, numbers: random.Random) -> list[int]:
    return sorted(numbers.sample(calls, min(len(calls), 1 + len(calls) // SOME_OF)))


def copied_at_once(calls: int, numbers: random.Random) -> list[int]:
    """Calls whose outputs are copied right behind them, in the order of the caller's stream: not there yet are those of
    a submission that lets its calls overlap, and for which nobody waits."""
    return some_of(range(calls - 1), numbers) if calls > 1 else []


def late_writes(members: list[list[torch.Tensor]], facts: list[Any], numbers: random.Random) -> list[Late]:
    """Chosen at random, and written into `members`, which then are what the calls get."""
    free = [i for i, f in enumerate(facts) if f.can_be_changed]
    if len(members) < 2 or not free:
        return []
    i = max(free, key=lambda k: members[0][k].numel())
    found = []
    for call in some_of(range(1, len(members)), numbers):
        flat = members[call][i].reshape(-1)
        length = max(1, flat.numel() // LATE_PART)
        begin = numbers.randrange(flat.numel() - length + 1)
        value = float(torch.tensor(numbers.uniform(facts[i].least, facts[i].most), dtype=flat.dtype))
        found.append(Late(call, i, begin, begin + length, value, flat[begin:begin + length].clone()))
        flat[begin:begin + length] = value
        members[call][i] = flat.reshape(members[call][i].shape)
    return found
