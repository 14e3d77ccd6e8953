"""Which verdicts count as different between two runs of the corpus, and which as declared."""

from __future__ import annotations

import unittest
from typing import Any

from corpus import BY_POISON, Variant, wrong
from evaluation import batches, is_as_declared, result_of
from programs import edit
from report import compare


def result(name: str, outcome: str = "wrong_answer", gate: str = "2 close", **more: Any) -> dict[str, Any]:
    return {"name": name, "task": "t", "kind": "k", "outcome": outcome, "gate": gate, "draw": "", "reason": "because",
            "gates_by_chance": [], **more}


def differences(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> int:
    return compare({"device": "cpu", "variants": before}, {"device": "cpu", "variants": after})[1]


class Comparing(unittest.TestCase):
    def test_the_same_verdicts_do_not_differ(self) -> None:
        run = [result("a"), result("b", "invalid", "")]
        self.assertEqual(differences(run, run), 0)

    def test_another_outcome_or_gate_differs(self) -> None:
        self.assertEqual(differences([result("a")], [result("a", "crash", "run")]), 1)
        self.assertEqual(differences([result("a")], [result("a", gate="3 error")]), 1)
        self.assertEqual(differences([result("a")], [result("a", "correct", "")]), 1)

    def test_a_verdict_that_is_missing_differs(self) -> None:
        self.assertEqual(differences([result("a"), result("b")], [result("a")]), 1)
        self.assertEqual(differences([result("a")], [result("a"), result("b")]), 1)

    def test_only_gates_by_chance_are_interchangeable(self) -> None:
        chance = list(BY_POISON)
        one, two, five = (result("a", gate=g, gates_by_chance=chance) for g in ("1 form", "2 close", "5 draws"))
        self.assertEqual(differences([one], [two]), 0)
        self.assertEqual(differences([one], [five]), 1)

    def test_the_precision_of_timing_is_no_difference(self) -> None:
        self.assertEqual(differences([result("a", "correct", "")], [result("a", "unmeasurable", "audit: interval")]), 0)

    def test_another_draw_is_no_difference_but_is_reported(self) -> None:
        before, after = (result("a", gate="5 draws", draw=d) for d in ("outliers: 2 close", "peaked: 2 close"))
        text, found = compare({"device": "cpu", "variants": [before]}, {"device": "cpu", "variants": [after]})
        self.assertEqual(found, 0)
        self.assertIn("1 fail on another kind of draw", text)


class Declaring(unittest.TestCase):
    def judged(self, variant: Variant, outcome: str, gate: str, device: str) -> bool:
        verdict = {"result": outcome, "gates": [{"gate": gate, "passed": False, "reason": ""}], "reason": ""}
        return is_as_declared(variant, result_of(variant, verdict, device), device)

    def test_gates_are_declared_for_cpu_and_those_by_chance_for_all(self) -> None:
        close = wrong("t", "k", "l", edit("a", "b"))
        self.assertTrue(self.judged(close, "wrong_answer", "2 close", "cpu"))
        self.assertFalse(self.judged(close, "wrong_answer", "3 error", "cpu"))
        self.assertTrue(self.judged(close, "wrong_answer", "3 error", "cuda:0"))
        self.assertFalse(self.judged(close, "correct", "", "cuda:0"))
        unwritten = wrong("t", "k", "m", gate=BY_POISON)
        self.assertTrue(self.judged(unwritten, "wrong_answer", "1 form", "cuda:0"))
        self.assertFalse(self.judged(unwritten, "wrong_answer", "5 draws", "cuda:0"))

    def test_batches_have_one_task(self) -> None:
        variants = [wrong(task, "k", str(i)) for task in ("s", "t") for i in range(8)]
        parts = list(batches(variants))
        self.assertEqual([v for part in parts for v in part], variants)
        self.assertTrue(all(len({v.task for v in part}) == 1 for part in parts))


if __name__ == "__main__":
    unittest.main()
