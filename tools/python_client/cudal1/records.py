"""Answers of a node as dataclasses."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple


@dataclass(frozen=True)
class Variant:
    """What is evaluated: one of a program's text, a schedule, a language model's whole answer, and a Python file with
    ModelNew (`python`)."""

    program: str = ""
    schedule: str = ""
    answer: str = ""
    label: str = ""
    python: str = ""

    def document(self) -> Dict[str, str]:
        texts = {"program": self.program, "schedule": self.schedule, "answer": self.answer, "python": self.python}
        given = {name: text for name, text in texts.items() if text}
        if len(given) != 1:
            raise ValueError("give exactly one of program, schedule, answer and python, and not an empty text")
        if self.label:
            given["label"] = self.label
        return given


@dataclass(frozen=True)
class Gate:
    name: str
    passed: bool
    reason: str


@dataclass(frozen=True)
class Verdict:
    """`speedup` is the median of paired ratios over the task's own program (of a Python file: over eager mode), with its
    95% `interval`; None unless the variant is correct and could be timed."""

    outcome: str
    correct: bool
    speedup: Optional[float]
    interval: Optional[Tuple[float, float]]
    confirmed: bool
    reason: str
    hint: str
    failed_gate: str
    gates: Tuple[Gate, ...]
    variant: str
    experiment: str
    device: str
    reference_us: float
    variant_us: float
    compiler_log: str
    document: Dict[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(d: Dict[str, Any]) -> "Verdict":
        interval = d.get("interval")
        return Verdict(
            outcome=d["outcome"],
            correct=d["correct"],
            speedup=d.get("speedup"),
            interval=(interval[0], interval[1]) if interval else None,
            confirmed=d.get("confirmed", False),
            reason=d.get("reason", ""),
            hint=d.get("hint", ""),
            failed_gate=d.get("failed_gate", ""),
            gates=tuple(Gate(g["gate"], g["passed"], g["reason"]) for g in d.get("gates", [])),
            variant=d.get("variant", ""),
            experiment=d.get("experiment", ""),
            device=d.get("device", ""),
            reference_us=d.get("reference_us", 0.0),
            variant_us=d.get("variant_us", 0.0),
            compiler_log=d.get("compiler_log", ""),
            document=d,
        )

    @property
    def measured(self) -> bool:
        """Whether it says something about the variant: not where the machine was too busy to time it."""
        return self.outcome not in ("unmeasurable", "quarantined")

    def feedback(self) -> str:
        """What a writer of the variant is told, for the next turn."""
        if self.correct and self.interval is not None:
            text = (f"Correct. Speedup {self.speedup:.4g}x, 95% interval [{self.interval[0]:.4g}, {self.interval[1]:.4g}]: "
                    f"reference {self.reference_us:.4g} us, variant {self.variant_us:.4g} us.")
        else:
            text = f"{self.outcome}: {self.reason}"
        if self.failed_gate and not self.correct:
            text += f"\nThe first gate that failed: {self.failed_gate}."
        if self.hint:
            text += f"\n{self.hint}"
        if self.compiler_log and not self.correct:
            text += f"\nThe compiler's output:\n{self.compiler_log}"
        return text

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{'pass' if g.passed else '<b>FAIL</b>'}</td><td>{html.escape(g.name)}</td>"
                       f"<td>{html.escape(g.reason)}</td></tr>" for g in self.gates)
        return f"<p>{html.escape(self.feedback())}</p><table>{rows}</table>"


@dataclass(frozen=True)
class Item:
    """One evaluation of a job; `verdict` is None until it has ended, and where it failed."""

    index: int
    label: str
    state: str
    verdict: Optional[Verdict]
    error: Optional[Dict[str, str]]

    @staticmethod
    def of(d: Dict[str, Any]) -> "Item":
        verdict = d.get("verdict")
        return Item(d["index"], d.get("label", ""), d["state"], Verdict.of(verdict) if verdict else None, d.get("error"))


@dataclass(frozen=True)
class Best:
    variant: str
    speedup: float
    interval: Tuple[float, float]
    confirmed: bool
    reference_us: float
    variant_us: float
    origin: str
    schedule: str
    experiment: str

    @staticmethod
    def of(d: Dict[str, Any]) -> "Best":
        interval = d["speedup_interval"]
        return Best(d["variant"], d["speedup"], (interval["low"], interval["high"]), d["confirmed"], d["reference_us"],
                    d["variant_us"], d["origin"], d["schedule"], d["experiment"])


@dataclass(frozen=True)
class Progress:
    """Of a search."""

    experiment: str
    state: str
    evaluations: int
    planned: int
    evaluations_per_s: float
    tasks: List[Dict[str, Any]]
    document: Dict[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(d: Dict[str, Any]) -> "Progress":
        return Progress(d["experiment"], d["state"], d.get("evaluations", 0), d.get("planned", 0),
                        d.get("evaluations_per_s", 0.0), d.get("tasks", []), d)

    @property
    def has_ended(self) -> bool:
        return self.state != "running"

    def line(self) -> str:
        best = ", ".join(f"{t['task']} {t['best']:.3g}x" for t in self.tasks if t.get("best"))
        planned = f" of {self.planned}" if self.planned else ""
        return f"{self.experiment} {self.state}: {self.evaluations}{planned} evaluations, " \
               f"{self.evaluations_per_s:.2f} a second{'; ' + best if best else ''}"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{html.escape(str(t['task']))}</td><td>{t['evaluations']}</td><td>{t['correct']}</td>"
                       f"<td>{t['best']:.3g}x</td></tr>" for t in self.tasks)
        return (f"<p>{html.escape(self.line())}</p><table><tr><th>task</th><th>evaluations</th><th>correct</th>"
                f"<th>best</th></tr>{rows}</table>")
