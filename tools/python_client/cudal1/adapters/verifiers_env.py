"""A `verifiers` taskset and environment whose rewards are judged by a node. Needs `pip install verifiers==0.4.0`.

An episode is one task of the node: the prompt, the model's answer, and after a refusal its feedback as the next turn of
the user, until an answer is correct or `rounds` were taken. The reward is the last answer's. Groups are the trainer's:
the node has all answers of a group in flight.

    vf-eval cudal1_verifiers --env.taskset.tasks '["softmax"]' --env.rounds 3 --env.writer.harness.id null -m MODEL -r 8

The id is that of a module at the top, cudal1_verifiers, since verifiers finds no module in a package.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, List, Optional

import verifiers.v1 as vf

from ..client import connect
from .reward import Judge, Judged

__all__ = ["KernelEnv", "KernelTaskset"]


class KernelData(vf.TaskData):
    task: str


class KernelTask(vf.Task[KernelData]):
    """Scored by KernelEnv, which sees the answers; as the task of another environment by its last reply."""

    judge: Optional[Judge] = None

    @vf.reward
    async def score_of_kernel(self, trace: vf.Trace) -> float:
        if "kernel" in trace.info:  # KernelEnv has judged it
            return float(trace.info["kernel"]["reward"])
        judged = await judge_answer(self.judge or Judge(), self.data.task, trace.last_reply)
        return judged.reward


class KernelTasksetConfig(vf.TasksetConfig):
    tasks: List[str] = []
    url: Optional[str] = None  # None: CUDAL1_URL, else the node of this machine
    device: Optional[str] = None
    form: str = "program"
    contrastive: bool = True


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    def load(self) -> Iterator[KernelTask]:
        judge = judge_of(self.config)
        for name in self.config.tasks:
            made = KernelTask(KernelData(name=name, task=name,
                                         prompt=judge.prompt(name, contrastive=self.config.contrastive)), self.config.task)
            made.judge = judge
            yield made


class KernelEnvConfig(vf.EnvConfig):
    writer: vf.AgentConfig = vf.AgentConfig()
    rounds: int = 3


class KernelEnv(vf.Env[KernelEnvConfig]):
    async def run(self, task: Any, agents: Any) -> None:
        judge = task.judge or Judge()
        async with agents.writer.interaction(task.with_data(prompt=None)) as interaction:
            text = task.data.prompt_text
            for number in range(self.config.rounds):
                segment = await interaction.turn(text)
                judged = await judge_answer(judge, task.data.task, segment.last_reply)
                interaction.trace.info["kernel"] = {
                    "reward": judged.reward, "outcome": judged.verdict.outcome, "speedup": judged.verdict.speedup,
                    "interval": judged.verdict.interval, "variant": judged.verdict.variant, "round": number + 1}
                if judged.verdict.correct or segment.terminated:
                    break
                text = judged.feedback


def judge_of(config: KernelTasksetConfig) -> Judge:
    return Judge(connect(config.url) if config.url else None, device=config.device, form=config.form)


async def judge_answer(judge: Judge, task: str, answer: str) -> Judged:
    """An infrastructure fault is an exception, which ends the rollout without a reward."""
    return (await asyncio.to_thread(judge.judge, [task], [answer]))[0]
