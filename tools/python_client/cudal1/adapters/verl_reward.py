"""A reward function for verl.

    custom_reward_function.path=.../cudal1/adapters/verl_reward.py custom_reward_function.name=compute_score

A row's `data_source` is "cudal1", its `reward_model.ground_truth` the task's name. $CUDAL1_URL and $CUDAL1_TOKEN name the
node.
"""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional

from cudal1.adapters.reward import Judge

_judge: Optional[Judge] = None
_lock = threading.Lock()


def _the_judge() -> Judge:
    global _judge
    with _lock:
        _judge = _judge or Judge()
        return _judge


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Optional[Dict[str, Any]] = None,
                  **_: Any) -> Dict[str, Any]:
    """Of one answer. `score` is the reward; the rest is logged. An infrastructure fault is an exception."""
    return compute_scores([data_source], [solution_str], [ground_truth], [extra_info])[0]


def compute_scores(data_sources: List[str], solution_strs: List[str], ground_truths: List[str],
                   extra_infos: Optional[List[Any]] = None, **_: Any) -> List[Dict[str, Any]]:
    """Of a batch, for a reward manager that gives all answers at once: all are in flight together."""
    for source in data_sources:
        if source != "cudal1":
            raise ValueError(f'the data source is "{source}", not "cudal1"')
    out = []
    for judged in _the_judge().judge(ground_truths, solution_strs):
        v = judged.verdict
        out.append({"score": judged.reward, "correct": float(v.correct), "speedup": v.speedup or 0.0, "outcome": v.outcome,
                    "feedback": judged.feedback})
    return out
