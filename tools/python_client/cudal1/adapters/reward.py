"""The reward of a language model's answer: its rule, and whole groups evaluated at once.

An infrastructure fault is an exception, never a reward: a trainer that swallowed it would teach that a full disk is the
model's fault.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence

from ..client import Client, connect
from ..errors import InfrastructureError, TimeLimit
from ..records import Variant, Verdict


@dataclass(frozen=True)
class RewardRule:
    """wrong + what a correct variant gets for being correct, and for the logarithm of its speedup. By the lower end of
    the 95% interval, so that noise earns nothing; a variant slower than the reference loses no more than it gained by
    being correct."""

    wrong: float = 0.0
    correct: float = 0.3
    per_doubling: float = 1.0
    most: float = 5.0
    by_lower_end: bool = True

    def reward(self, verdict: Verdict) -> float:
        if not verdict.correct or verdict.speedup is None or verdict.interval is None:
            return self.wrong
        speedup = verdict.interval[0] if self.by_lower_end else verdict.speedup
        gained = self.per_doubling * math.log2(speedup) if speedup > 0 else -self.correct
        return self.wrong + min(self.most, self.correct + max(-self.correct, gained))


_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.S)


def python_of(answer: str) -> str:
    """The Python file in a language model's answer: the last fenced block that has ModelNew, else the whole text."""
    blocks = [block for block in _FENCED.findall(answer) if "ModelNew" in block]
    return blocks[-1] if blocks else answer


@dataclass(frozen=True)
class Judged:
    reward: float
    verdict: Verdict

    @property
    def feedback(self) -> str:
        """For the next turn: the failing gate and what to write instead, or the score."""
        return self.verdict.feedback()


_PYTHON_PROMPT = """Write a faster version of this PyTorch model. Keep its parameters, their names and its results; call \
it ModelNew, and answer with the whole Python file in one fenced block.

```python
{source}```
"""


class Judge:
    """Evaluates answers, whole groups at once: the node has them all, and takes turns with other clients. `form`: what an
    answer holds: a `program` of our format, or a `python` file with ModelNew, whose prompt is never contrastive."""

    def __init__(self, client: Optional[Client] = None, *, rule: RewardRule = RewardRule(), device: Optional[str] = None,
                 limit_s: float = 600.0, measure_again: int = 2, form: str = "program"):
        if form not in ("program", "python"):
            raise ValueError(f"there is no form {form!r}: program, python")
        self._client, self.form = client or connect(), form
        self.rule, self.device, self.limit_s, self._again = rule, device, limit_s, measure_again
        self._prompts: Dict[str, str] = {}

    def prompt(self, task: str, *, contrastive: bool = True, tokens: Optional[int] = None) -> str:
        """What the model is shown. Contrastive: with earlier variants and their scores, as they are now; else the same
        text each time: the one of the first call."""
        if (not contrastive or self.form == "python") and task in self._prompts:
            return self._prompts[task]
        if self.form == "python":
            return self._prompts.setdefault(task, _PYTHON_PROMPT.format(source=self._client.task(task, self.device).python()))
        text = self._client.task(task, self.device).prompt(tokens=tokens)
        return text if contrastive else self._prompts.setdefault(task, text)

    def judge(self, tasks: Sequence[str], answers: Sequence[str]) -> List[Judged]:
        """In the given order. Raises InfrastructureError where one has no verdict within the limit, or could not be
        measured also when it was repeated."""
        if len(tasks) != len(answers):
            raise ValueError(f"{len(tasks)} tasks and {len(answers)} answers")
        verdicts: List[Optional[Verdict]] = [None] * len(answers)
        end = time.monotonic() + self.limit_s
        for _ in range(1 + self._again):
            missing = [i for i, v in enumerate(verdicts) if v is None or not v.measured]
            if not missing:
                break
            self._evaluate(missing, tasks, answers, verdicts, end)
        out = []
        for i, verdict in enumerate(verdicts):
            if verdict is None or not verdict.measured:
                raise InfrastructureError(f"answer {i} to {tasks[i]} could not be measured",
                                          hint="the machine is too busy; give no reward")
            out.append(Judged(self.rule.reward(verdict), verdict))
        return out

    def _variant(self, answer: str) -> Variant:
        """An empty answer is no variant; any other text without a program gets a verdict."""
        if self.form == "python":
            return Variant(python=python_of(answer) or " ")
        return Variant(answer=answer or " ")

    def _evaluate(self, which: Sequence[int], tasks: Sequence[str], answers: Sequence[str],
                  verdicts: List[Optional[Verdict]], end: float) -> None:
        groups: Dict[str, List[int]] = {}
        for i in which:
            groups.setdefault(tasks[i], []).append(i)
        jobs = {task: self._client.submit(task, [self._variant(answers[i]) for i in members], device=self.device)
                for task, members in groups.items()}
        try:
            for task, members in groups.items():
                jobs[task].wait(max(0.1, end - time.monotonic()))
                for i, verdict in zip(members, jobs[task].verdicts()):
                    verdicts[i] = verdict
        except BaseException as e:
            for job in jobs.values():
                if not job.has_ended:
                    job.cancel()
            if isinstance(e, TimeLimit):
                raise TimeLimit(f"no verdicts within {self.limit_s:g} s", hint="raise limit_s; give no reward") from None
            raise
