"""What the samples gave, and which refusals are expected."""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import re
from typing import Iterable

import torch

import samples

BITS, ROUNDING, REFUSED, WRONG = "same bits", "within rounding", "refused", "WRONG"
EXCEPTIONS = pathlib.Path(__file__).with_name("exceptions.txt")

# Why a task cannot have a call: the first that is found in the reason.
REASONS = {
    "random": r"live randomness|prims::(normal|uniform)|aten::(normal_|rrelu_with_noise|native_dropout)",
    "values": r"depend on values",
    "complex": r"complex|_fft_|_conj|aten::(angle|stft|istft|transpose_)",
    "uninitialised": r"uninitialised|prims::empty_strided|aten::resize",
    "linear algebra": r"linalg|cholesky|aten::(lu_|geqrf|ormqr|triangular_solve|det|inverse)",
    "special functions": r"special_|bessel|polygamma|igamma|i0|zeta|ndtri|erfcx|erfinv",
    "no tensor": r"returns no tensor|computes nothing",
    "integers": r"takes (floating types|integer and floating types|bool and integer types|bool|integer types) only",
    "PyTorch's fault": r"PyTorch gives another result",
    "changes its operand": r"changes its operand|changes a tensor in place|would update it|more than one element of the written-to",
    "no such operator": r"it needs |it calls |has no functional form",
    "no rule": r"",
}


@dataclasses.dataclass
class Line:
    sample: samples.Sample
    outcome: str = ""
    reason: str = ""
    exact: str = ""  # in float64: "same bits", "refused" or "WRONG"; "" where it was not asked
    recorded: list[str] = dataclasses.field(default_factory=list)  # ATen's operators in the call

    def as_json(self) -> dict:
        s = self.sample
        return {"operator": s.operator, "dtype": samples.dtype_text(s.dtype), "layout": s.layout, "form": s.form,
                "number": s.number, "outcome": self.outcome, "reason": self.reason, "exact": self.exact,
                "recorded": self.recorded}


def kind_of(reason: str) -> str:
    return next(kind for kind, words in REASONS.items() if re.search(words, reason))


def expected_exceptions() -> dict[str, set[str]]:
    """For each operator of the database, the reasons for which some of its samples are refused."""
    found: dict[str, set[str]] = {}
    for line in EXCEPTIONS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            operator, _, kinds = line.partition(": ")
            found[operator] = set(kinds.split(", "))
    return found


def core_operators() -> list[str]:
    """ATen's core set, as PyTorch tags it."""
    names = []
    for name in torch._C._dispatch_get_all_op_names():
        packet, _, overload = name.removeprefix("aten::").partition(".")
        if name.startswith("aten::"):
            op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
            if op is not None and torch.Tag.core in op.tags:
                names.append(name)
    return sorted(names)


def agrees(line: dict) -> bool:
    return line["outcome"] in (BITS, ROUNDING)


def show_core(lines: list[dict], known: Iterable[str]) -> None:
    """Which operators of the core set samples have used, alone or as a part of others."""
    used = {name for line in lines if agrees(line) for name in line["recorded"]}
    core, known = core_operators(), set(known)
    print(f"ATen's core set: {len(core)} operators, {len(known & set(core))} with a rule, "
          f"{len(used & set(core))} in calls that agree")
    print("without a rule and without an agreeing call: " + ", ".join(n for n in core if n not in used | known))


def show(lines: list[dict], known: Iterable[str], seconds: float, whole: bool) -> int:
    """The tables; the exit code. `known`: the operators that have rules."""
    by_operator = collections.defaultdict(list)
    for line in lines:
        by_operator[line["operator"]].append(line)
    counts = collections.Counter(line["outcome"] for line in lines)
    exact = collections.Counter(line["exact"] for line in lines if line["exact"])
    entire = sum(all(map(agrees, some)) for some in by_operator.values())
    partly = sum(any(map(agrees, some)) for some in by_operator.values()) - entire
    print(f"{len(by_operator)} operators of PyTorch's database, {len(lines)} samples, {seconds:.0f} s")
    print(f"{counts[BITS]} give PyTorch's bits, {counts[ROUNDING]} are within rounding (decomposed, copied, or in another "
          f"order), {counts[REFUSED]} are refused, {counts[WRONG]} are wrong")
    print(f"in float64: {exact[BITS]} agree, {exact[REFUSED]} have no float64 form, {exact[WRONG]} are wrong")
    print(f"operators: {entire} with all samples, {partly} with some, {len(by_operator) - entire - partly} with none")
    show_core(lines, known)
    refused: dict[str, dict[str, int]] = {kind: collections.Counter() for kind in REASONS}
    for line in lines:
        if line["outcome"] == REFUSED:
            refused[kind_of(line["reason"])][line["operator"]] += 1
    for kind, operators in refused.items():
        if operators:
            print(f"refused, {kind}: {sum(operators.values())} samples of {len(operators)} operators")
    bad = [line for line in lines if line["outcome"] == WRONG or line["exact"] == REFUSED]
    for line in bad:
        print(f"WRONG: {line['operator']} {line['dtype']} {line['layout']} {line['form']} #{line['number']}: {line['reason']}")
    return show_exceptions(refused, lines, whole) or (1 if bad else 0)


def show_exceptions(refused: dict[str, dict[str, int]], lines: list[dict], whole: bool) -> int:
    """Compares them with the table. A part of the samples need not have all that it lists."""
    found = collections.defaultdict(set)
    for kind, operators in refused.items():
        for operator in operators:
            found[operator].add(kind)
    expected = expected_exceptions()
    new = [o for o in sorted(found) if found[o] - expected.get(o, set())]
    for operator in new:
        kinds = found[operator] - expected.get(operator, set())
        reason = next(x["reason"] for x in lines if x["operator"] == operator and x["outcome"] == REFUSED
                      and kind_of(x["reason"]) in kinds)
        print(f"not among the exceptions:\n{operator}: {', '.join(k for k in REASONS if k in kinds)}\n    {reason[:300]}")
    gone = [o for o in expected if whole and expected[o] - found.get(o, set())]
    for operator in gone:
        print(f"an exception no longer: {operator}: {', '.join(sorted(expected[operator] - found.get(operator, set())))}")
    return 1 if new or gone else 0


def read(paths: list[pathlib.Path]) -> list[dict]:
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
