"""The corpus: correct programs as controls, and wrong ones, each a correct program with one thing changed."""

from __future__ import annotations

import dataclasses
import fnmatch
import zlib

import correct_pointwise
import correct_rows
from programs import Change, Program, Task

DEVICES = ("cpu", "cuda")
# New memory is poisoned at random for each call: NaN, large numbers or noise. Unwritten elements fail the first gate if
# the poison was NaN in one of the declared draws, which is nearly always the case, else the second one.
BY_POISON = ("1 form", "2 close")

CONTROL = "control"
KNOWN = "known to be accepted"
ACCEPTED = ("correct", "unmeasurable")


@dataclasses.dataclass(frozen=True)
class Variant:
    name: str  # TASK.KIND.LABEL; for a control TASK.control
    task: str
    kind: str
    changes: tuple[Change, ...]
    outcomes: dict[str, tuple[str, ...]]  # by device: the declared outcomes, any of which is right
    gates: tuple[str, ...]  # on `cpu`: the first failing gate is one of these; empty: not declared
    by_chance: bool = False  # which of the gates fails first depends on random draws
    devices: tuple[str, ...] = DEVICES
    reason: str = ""  # why it is accepted, for kind KNOWN
    quick: bool = False  # belongs to the sample that the tests run

    def program(self, task: Task) -> Program:
        p = correct_program(task)
        p.head["name"] = self.name.replace(".", "_")
        # A quarter of the wrong answers runs as a graph, which only a GPU has.
        chosen_for_graph = zlib.crc32(self.name.encode()) % 4 == 0
        if task.profile == "cuda" and chosen_for_graph and "wrong_answer" in self.outcomes["cuda"]:
            p.head["execution"] = {"graph": True}
        for change in self.changes:
            change(p)
        return p


def named(task: str, kind: str, label: str) -> str:
    return f"{task}.{kind.replace(' ', '_')}.{label}"


def correct_program(task: Task) -> Program:
    if task.name == "turned_relu":
        kernel = correct_pointwise.POINTWISE["relu_of_uniform"]
        n = task.tensor("x").elements
        p = Program(task, correct_pointwise.frame(kernel, {})).alloc("p", task.tensor("x").shape)
        return p.launch("k", n, ["in x", "out p", f"i32 {n}"]).aten("t", "y", self="p")
    made = correct_pointwise.pointwise_program(task) or correct_rows.row_program(task)
    if made is None:
        raise KeyError(f"there is no correct program for the task {task.name}")
    return made


def wrong(task: str, kind: str, label: str, *changes: Change, outcome: str | tuple[str, ...] = "wrong_answer",
          cuda: str | tuple[str, ...] | None = None, gate: str | tuple[str, ...] = (),
          devices: tuple[str, ...] = DEVICES,
          quick: bool = False) -> Variant:
    """`outcome` is for both devices unless `cuda` is given for CUDA. A wrong answer fails gate 2 unless `gate` names
    another one."""
    def listed(value: str | tuple[str, ...]) -> tuple[str, ...]:
        return (value,) if isinstance(value, str) else value
    if not gate and outcome == "wrong_answer":
        gate = "2 close"
    outcomes = {"cpu": listed(outcome), "cuda": listed(outcome if cuda is None else cuda)}
    return Variant(named(task, kind, label), task, kind, changes, outcomes, listed(gate), gate == BY_POISON, devices,
                   quick=quick)


def accepted(task: str, label: str, reason: str, *changes: Change, devices: tuple[str, ...] = DEVICES) -> Variant:
    """A wrong variant that all gates accept, with the reason. It is run, so that a change of its verdict is noticed."""
    return Variant(named(task, KNOWN, label), task, KNOWN, changes, {d: ACCEPTED for d in DEVICES}, (), devices=devices,
                   reason=reason)


def control(task: str, quick: bool = False) -> Variant:
    return Variant(f"{task}.{CONTROL}", task, CONTROL, (), {d: ACCEPTED for d in DEVICES}, (), quick=quick)


def corpus() -> list[Variant]:
    """All variants, controls first within each task."""
    import known_accepted
    import wrong_answers
    import wrong_arithmetic
    import wrong_heads
    import wrong_inputs
    import wrong_memory
    import wrong_sources
    from own_tasks import OWN_TASKS

    tasks = list(correct_pointwise.POINTWISE) + list(correct_pointwise.EPILOGUES) + ["mlp"]
    tasks += list(correct_rows.ROWS) + list(correct_rows.TERMS) + ["linear_row_sum", "attention"]
    tasks += [one["name"] for one in OWN_TASKS if one["name"] not in tasks]
    all_variants = [control(task, task in ("huber_loss", "row_argmax")) for task in tasks]
    for module in (wrong_answers, wrong_arithmetic, wrong_inputs, wrong_memory, wrong_sources, wrong_heads,
                   known_accepted):
        all_variants += module.variants()
    names = [v.name for v in all_variants]
    if len(names) != len(set(names)):
        raise ValueError(f"two variants have the same name: {sorted(n for n in set(names) if names.count(n) > 1)}")
    return sorted(all_variants, key=lambda v: (v.task, v.kind != CONTROL))


def chosen(variants: list[Variant], device: str, pattern: str = "") -> list[Variant]:
    """The variants for a device whose name or kind matches the pattern, such as *.half_sum or gelu*."""
    return [v for v in variants if device in v.devices
            and (not pattern or fnmatch.fnmatch(v.name, pattern) or fnmatch.fnmatch(v.kind, pattern))]
