"""Whether the answers of a burst are right: every output of every call, against eager's and float64."""

from __future__ import annotations

import random
from typing import Any

import torch

from submissions import draws, gates
from submissions.calls import differing, same_bits
from submissions.judged import USUAL, Draw, Found, Refused, name_of


class Comparisons:
    """A part of a pool."""

    numbers: random.Random
    found: Found
    kept: list[Draw]
    has_exact: bool
    out_tree: Any
    out_leaves: list[dict[str, Any]]
    errors: list[gates.EagerError | None]  # of each output, once it is known
    before: torch.Tensor | None  # the last answer, for null models

    def exactly(self, draw: Draw, which: list[int], moved: bool = False) -> dict[int, list[torch.Tensor]]:
        raise NotImplementedError

    def say_where(self, draw: Draw, member: int = 0) -> str:
        mode = "" if draw.mode is USUAL else f" in mode {name_of(draw.mode)}"
        count = len(draw.members)
        burst = f", {member + 1} of a burst of {count}" if count > 1 else ""
        return f"call {self.found.calls - count + member + 1}{burst}, draw `{draw.kind}`{mode}"

    def compare(self, draw: Draw, reply: dict[str, Any], exact: bool) -> bool:
        if "problem" in reply:
            if draw.mode is not USUAL:
                self.found.notes.add(f"it raises an error in mode {name_of(draw.mode)}: {reply['problem'][:120]}")
                return False
            raise Refused("raises", f"{self.say_where(draw)}: {reply['problem']}")
        forms = reply.get("forms")
        if not isinstance(forms, list) or not forms:
            raise Refused("form", f"{self.say_where(draw)}: it does not say what it returns")
        for form in forms:
            self.compare_form(form, self.say_where(draw))
        precise = self.exactly(draw, [self.numbers.randrange(len(draw.members))]) if exact else {}
        for i in range(len(self.out_leaves)):
            for m in self.doubtful(draw, i, precise):
                self.compare_output(draw, m, i, precise.get(m))
        self.found.compared_kinds.add(draw.kind if draw.mode is USUAL else name_of(draw.mode))
        self.try_null_models(draw, precise)
        return True

    def doubtful(self, draw: Draw, i: int, precise: dict[int, list[torch.Tensor]]) -> list[int]:
        """The calls whose output i is to be compared by itself: not those with eager's bits, nor, on declared draws,
        such as gate 2 finds near eager's when it looks at all of them at once."""
        declared = draw.kind in ("declared", "again")
        got, wanted = [a[i] for a in draw.answers], [w[i] for w in draw.wanted]
        for m in precise if declared and draw.mode is USUAL else ():
            self.errors[i] = gates.EagerError.worse(self.errors[i], gates.EagerError.of(wanted[m], precise[m][i]))
        rest = [m for m in differing(list(zip(got, wanted))) if m not in precise]
        error = self.errors[i]
        if declared and len(rest) > 1 and error is not None:
            if gates.is_near(torch.stack([got[m] for m in rest]), torch.stack([wanted[m] for m in rest]), error):
                rest = []
        if declared and len(rest) > 1:
            precise.update(self.exactly(draw, rest))
        return sorted({*precise, *rest})

    def compare_output(self, draw: Draw, m: int, i: int, values: list[torch.Tensor] | None) -> None:
        got, wanted, precise = draw.answers[m][i], draw.wanted[m][i], values[i] if values else None
        declared = draw.kind in ("declared", "again")
        problem = gates.wrong(got, gates.Expected(wanted, precise), declared)
        if problem and self.has_exact:
            base = precise if precise is not None else self.exactly(draw, [m]).get(m, [None] * (i + 1))[i]
            moved = self.exactly(draw, [m], moved=True).get(m, [None] * (i + 1))[i] if base is not None else None
            if moved is not None and not torch.is_floating_point(got):
                moved = None
            by_rounding = moved - base if moved is not None else None
            problem = gates.wrong(got, gates.Expected(wanted, base, by_rounding), declared)
        if problem:
            kind = "overwritten" if self.is_later_answer(draw, m, i) else self.kind_of_wrong(draw)
            raise Refused(kind, f"{self.say_where(draw, m)}: output {i} {problem}")

    def is_later_answer(self, draw: Draw, m: int, i: int) -> bool:
        """Whether it holds the answer of a later call of its burst."""
        return any(same_bits(draw.answers[m][i], draw.answers[k][i])
                   and not gates.wrong(draw.answers[k][i], gates.Expected(draw.wanted[k][i], None), True)
                   for k in range(m + 1, len(draw.members)))

    def compare_form(self, form: Any, where: str) -> None:
        if not isinstance(form, dict) or form.get("tree") != self.out_tree \
                or len(form.get("leaves", [])) != len(self.out_leaves):
            raise Refused("form", f"{where}: it does not return what the reference returns")
        for i, (got, wanted) in enumerate(zip(form["leaves"], self.out_leaves)):
            problem = gates.wrong_form(got, wanted)
            if problem:
                raise Refused("form", f"{where}: output {i} {problem}")

    def kind_of_wrong(self, draw: Draw) -> str:
        if draw.mode is not USUAL:
            return "mode"
        if draw.kind in draws.TWINS or draw.first is not None:
            return "stale"
        if draw.kind == "large_weights":
            return "distribution"
        if draw.kind in draws.KINDS:
            return "distribution" if self.kept else "wrong_answer"
        return "drift" if self.kept else "wrong_answer"

    def try_null_models(self, draw: Draw, precise: dict[int, list[torch.Tensor]]) -> None:
        if draw.mode is not USUAL or draw.kind == "again" or self.found.passing_null_models == set():
            return
        m = next(iter(precise), 0)
        wanted, values = draw.wanted[m][0], precise.get(m)
        before, self.before = self.before, wanted
        expected = gates.Expected(wanted, values[0] if values else None)
        passing = {name for name, t in gates.null_models(draw.members[m], wanted, before).items()
                   if not gates.wrong(t, expected, draw.kind == "declared")}
        known = self.found.passing_null_models
        self.found.passing_null_models = passing if known is None else known & passing
