"""An OpenEnv server whose environments are tasks of a node. Needs `pip install openenv-core==0.3.0`.

    uvicorn cudal1.adapters.openenv_server:app --port 8000

An episode is one task: reset gives the prompt, each step judges one answer, and the observation has the verdict's
feedback. It ends with the first correct answer, or after `rounds`. Settings: CUDAL1_URL, CUDAL1_TOKEN, and
OPENENV_TASKS (names with commas), OPENENV_DEVICE, OPENENV_FORM (program, python), OPENENV_ROUNDS.
"""

from __future__ import annotations

import os
import random
import uuid
from typing import Any, Callable, List, Optional, Sequence

from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

from .reward import Judge


class AnswerAction(Action):
    """A language model's whole answer."""

    answer: str


class VerdictObservation(Observation):
    """After reset: the prompt. After a step: the verdict on the answer."""

    task: str
    prompt: str = ""
    feedback: str = ""
    outcome: str = ""
    correct: bool = False
    speedup: Optional[float] = None
    interval: List[float] = []


class TaskState(State):
    task: str = ""


class TaskEnvironment(Environment[AnswerAction, VerdictObservation, TaskState]):
    """A step that cannot be measured is an error of the server, never a reward."""

    SUPPORTS_CONCURRENT_SESSIONS = True  # the node takes turns

    def __init__(self, judge: Judge, tasks: Sequence[str], *, rounds: int = 1, contrastive: bool = True):
        super().__init__()
        if not tasks:
            raise ValueError("name at least one task")
        self._judge, self._tasks, self._rounds, self._contrastive = judge, list(tasks), rounds, contrastive
        self._state = TaskState(task=self._tasks[0])

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, task: Optional[str] = None,
              **_: Any) -> VerdictObservation:
        """`task`: one of the environment's; without, one by `seed`."""
        if task is not None and task not in self._tasks:
            raise ValueError(f"there is no task {task!r} here; there is: {', '.join(self._tasks)}")
        chosen = task or random.Random(seed).choice(self._tasks)
        self._state = TaskState(episode_id=episode_id or str(uuid.uuid4()), step_count=0, task=chosen)
        return VerdictObservation(task=chosen, prompt=self._judge.prompt(chosen, contrastive=self._contrastive))

    def step(self, action: AnswerAction, timeout_s: Optional[float] = None, **_: Any) -> VerdictObservation:
        task = self._state.task
        judged = self._judge.judge([task], [action.answer])[0]
        self._state.step_count += 1
        v = judged.verdict
        return VerdictObservation(
            task=task, feedback=judged.feedback, outcome=v.outcome, correct=v.correct, speedup=v.speedup,
            interval=list(v.interval or ()), reward=judged.reward,
            done=v.correct or self._state.step_count >= self._rounds)

    @property
    def state(self) -> TaskState:
        return self._state


def make_app(factory: Callable[[], TaskEnvironment], sessions: int = 64) -> Any:
    return create_fastapi_app(factory, AnswerAction, VerdictObservation, max_concurrent_envs=sessions)


def _of_environment() -> TaskEnvironment:
    get = os.environ.get
    tasks = [name for name in get("OPENENV_TASKS", "").split(",") if name]
    if not tasks:
        raise ValueError("set OPENENV_TASKS to names of tasks, with commas")
    judge = Judge(device=get("OPENENV_DEVICE"), form=get("OPENENV_FORM", "program"))
    return TaskEnvironment(judge, tasks, rounds=int(get("OPENENV_ROUNDS", "1")))


def __getattr__(name: str) -> Any:  # `app` is made when a server asks for it
    if name == "app":
        return make_app(_of_environment)
    raise AttributeError(name)
