"""A reward function for TRL's GRPOTrainer.

    trainer = GRPOTrainer(model=..., reward_funcs=reward_function(), train_dataset=dataset(["softmax"], 100), ...)

The dataset has the columns `prompt` and `task`.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

from .reward import Judge


def text_of(completion: Any) -> str:
    """Of a completion: a text, or messages of which the last is the model's."""
    if isinstance(completion, str):
        return completion
    return str(completion[-1]["content"]) if completion else ""


def reward_function(judge: Optional[Judge] = None) -> Callable[..., List[float]]:
    """Called by the trainer with a group's completions; an infrastructure fault is its exception."""
    own = judge

    def cudal1_reward(completions: Sequence[Any], task: Sequence[str], **_: Any) -> List[float]:
        nonlocal own
        own = own or Judge()
        return [j.reward for j in own.judge(task, [text_of(c) for c in completions])]

    return cudal1_reward


def rows(tasks: Sequence[str], count: int, judge: Optional[Judge] = None, *, contrastive: bool = False,
         as_messages: bool = False, tokens: Optional[int] = None) -> List[Dict[str, Any]]:
    """`count` rows for datasets.Dataset.from_list, over the tasks in turn. `tokens`: of a prompt, at most, estimated."""
    judge = judge or Judge()
    out = []
    for i in range(count):
        task = tasks[i % len(tasks)]
        prompt: Any = judge.prompt(task, contrastive=contrastive, tokens=tokens)
        out.append({"prompt": [{"role": "user", "content": prompt}] if as_messages else prompt, "task": task})
    return out
