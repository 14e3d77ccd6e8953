#!/usr/bin/env python3
"""PyTorch's own times of a model, for `cudal1 baseline`.

A process that measures on one device. It reads JSON objects from its standard input, one per line, and writes its
answers to its standard output in the same way; whatever torch prints goes to standard error. A request:

  {"task": "softmax", "source": "/path/23_Softmax.py", "seed": 42, "kinds": ["eager", "graph"],
   "seconds": 1.0, "least_samples": 10, "prepare_seconds": 120, "flush_bytes": 0, "threads": 1, "cores": [6, 7],
   "best_pace_us": 32.5}

"cores": the cores for timed calls, for a GPU one of them at a time; empty for any. "best_pace_us": the best known pace
of the host (host_pace.Pace), or 0.

The answers:

  {"event": "ready", "torch": "torch 2.11.0+cu130, Python 3.11.2"}             once, after torch is loaded
  {"event": "begin", "kinds": ["graph"], "doing": "...", "limit_s": 130.0}     it may be silent for limit_s now
  {"event": "kind", "kind": "graph", "problem": "", "call_us": [...], ...}     one for each requested kind
  {"event": "done"}                                                            the next request may come
  {"event": "broken", "problem": "..."}                                        it cannot measure any more, and exits

A kind that cannot be measured is answered with the reason in "problem"; the others continue. The source defines Model,
get_inputs and get_init_inputs, as KernelBench's do. The module is run in train mode and without gradients, as
KernelBench's evaluation runs it.

The calls themselves and their clock are in pytorch_calls.py; how many are taken, and when, in measuring.py.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import platform
import signal
import sys
import time
import traceback
import types
from typing import Any, Callable

from host_pace import Pace
from measuring import measure
from pytorch_calls import (CALLS, Calls, Clock, Refused, Subject, load_module, load_torch, seed_everything, synchronize,
                           tensors_of)
from task_model import read_task

# As they are measured. Compiled ones first: the others, which are beside the node's own measurements, then come last. A
# failed capture needs a fresh process for the rest: so graph is before what cannot fail.
KINDS = ("compile", "reduce-overhead", "max-autotune", "cudnn", "graph", "eager")
CLOSE = 1e-2  # results that differ by more, absolutely or relatively, are said to differ

answers = None  # our standard output, after fd 1 has been redirected to standard error


def say(event: str, **members: Any) -> None:
    answers.write(json.dumps({"event": event, **members}) + "\n")
    answers.flush()


def sentence(problem: BaseException) -> str:
    """An exception in one sentence: its type and the first lines of its text."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    text = " ".join(lines[:3])
    if len(text) > 400:
        text = text[:400] + "..."
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


class BrokenProcess(Exception):
    """This process cannot measure any more, for the reason in the text; the next process must measure the rest."""


# ---- a task ---------------------------------------------------------------------------------------------------------


class Agreement:
    """Eager's result on the first draw, which the other kinds should give too."""

    def __init__(self, subject: Subject, seed: int):
        self.subject, self.seed = subject, seed
        self.expected = self.result_of(subject.model)
        again = self.result_of(subject.model)
        self.random = self.difference(again) != ""

    def result_of(self, call: Callable) -> list:
        seed_everything(self.seed)
        output = call(*self.subject.draws[0])
        synchronize(self.subject.device)
        return [t.detach().clone() for t in tensors_of(output)]

    def difference(self, got: list) -> str:
        if len(got) != len(self.expected):
            return f"it has {len(got)} tensors and eager's has {len(self.expected)}"
        for i, (a, b) in enumerate(zip(got, self.expected)):
            if a.shape != b.shape or a.dtype != b.dtype:
                return f"output {i} is {a.dtype}{list(a.shape)} and eager's is {b.dtype}{list(b.shape)}"
            if torch.allclose(a, b, rtol=CLOSE, atol=CLOSE, equal_nan=True):
                continue
            worst = (a.to(torch.float32) - b.to(torch.float32)).abs().nan_to_num(nan=math.inf).max().item()
            return f"output {i} differs from eager's by up to {worst:.3g}"
        return ""

    def of(self, calls: Calls) -> str:
        if self.random:
            return "not compared: eager itself gives another result with each call"

        def run(*inputs: Any) -> Any:
            calls.settle()
            return calls.run(list(inputs))

        return self.difference(calls.in_thread(lambda: self.result_of(run)))


def refusal_on_device(kind: str, device: torch.device) -> str:
    if kind not in KINDS:
        return f"there is no kind {kind}; the kinds are {', '.join(KINDS)}"
    if device.type == "cpu" and kind not in ("eager", "compile", "max-autotune"):
        return "needs a GPU"
    return ""


def module_of(source: str) -> types.ModuleType:
    """Of a model's Python file, or of a task file where the task has none."""
    return read_task(source) if source.endswith(".json") else load_module(source)


def gpu_is_broken(device: torch.device) -> str:
    """The reason if the process's context is unusable, as after an illegal access or a launch failure; else ""."""
    try:
        synchronize(device)
        return ""
    except Exception as problem:
        return sentence(problem)


def release_memory(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda" and not gpu_is_broken(device):
        torch.cuda.empty_cache()


class Task:
    def __init__(self, request: dict, device: torch.device, pace: Pace):
        self.request, self.device, self.pace = request, device, pace
        self.answered: set[str] = set()

    def answer(self, kind: str, problem: str = "", calls: Calls | None = None) -> None:
        if kind in self.answered:
            return
        self.answered.add(kind)
        say(
            "kind",
            kind=kind,
            problem=problem,
            call_us=calls.call_us if calls and not problem else [],
            device_us=calls.device_us if calls and not problem else [],
            prepare_s=calls.prepare_s if calls else 0.0,
            check=calls.check if calls else "",
            notes=calls.notes if calls else [],
            pace_us=calls.pace_us if calls else 0.0,
            python_us=calls.python_us if calls else 0.0,
            dropped_calls=calls.dropped_calls if calls else 0,
        )

    def begin(self, kinds: list[str], doing: str, limit_s: float) -> None:
        say("begin", kinds=kinds, doing=doing, limit_s=limit_s)

    def run(self) -> bool:
        """False if this process cannot measure any more."""
        kinds = []
        for kind in self.request["kinds"]:
            problem = refusal_on_device(kind, self.device)
            if problem:
                self.answer(kind, problem)
            else:
                kinds.append(kind)
        if not kinds:
            return True
        timeout_s = self.request["prepare_seconds"]
        self.begin(kinds, "load the model and draw its inputs", timeout_s)
        subject = None
        try:
            subject = Subject(module_of(self.request["source"]), self.request["seed"], self.device)
            self.measure_all(subject, kinds)
        except BrokenProcess as problem:
            say("broken", problem=str(problem))
            return False
        except Exception as problem:  # reported for every remaining kind
            traceback.print_exc()
            for kind in kinds:
                self.answer(kind, str(problem) if isinstance(problem, Refused) else sentence(problem))
        finally:
            if subject is not None:
                subject.forget()
            torch._dynamo.reset()
            del subject
            release_memory(self.device)
        problem = gpu_is_broken(self.device)
        if problem:
            say("broken", problem=problem)
        return not problem

    def measure_all(self, subject: Subject, kinds: list[str]) -> None:
        timeout_s = self.request["prepare_seconds"]
        agreement = Agreement(subject, self.request["seed"])
        clock = Clock(self.device, self.request["flush_bytes"])
        for kind in KINDS:
            if kind in kinds:
                self.measure_kind(subject, agreement, clock, kind, timeout_s)

    def measure_kind(self, subject: Subject, agreement: Agreement, clock: Clock, kind: str, timeout_s: float) -> None:
        calls = CALLS[kind](kind, subject)
        try:
            if not self.ready(calls, agreement, timeout_s):
                return
            self.begin([kind], "measure", 60 + 40 * self.request["seconds"])
            measure(clock, self.pace, calls, self.request)
            if calls.spin_too_short:
                calls.notes.append("device time has launch gaps: the call waits for the device, or enqueues more than "
                                   "the queue holds")
            self.answer(kind, calls=calls)
        except BrokenProcess:
            raise
        except Exception as problem:
            traceback.print_exc()
            self.answer(kind, sentence(problem))
            if broken := gpu_is_broken(self.device):
                raise BrokenProcess(broken) from problem
        finally:
            calls.close()
            release_memory(self.device)

    def ready(self, calls: Calls, agreement: Agreement, timeout_s: float) -> bool:
        """Prepares and compares. If that fails, answers for the kind and returns False."""
        self.begin([calls.kind], "prepare", timeout_s)
        begin = time.perf_counter()
        try:
            calls.prepare()
            calls.prepare_s = time.perf_counter() - begin
            if calls.kind != "eager":
                calls.check = agreement.of(calls)
            return True
        except Exception as problem:
            traceback.print_exc()
            calls.prepare_s = time.perf_counter() - begin
            self.answer(calls.kind, sentence(problem), calls)
            if broken := gpu_is_broken(self.device):
                raise BrokenProcess(broken) from problem
            if calls.kind in ("graph", "reduce-overhead", "max-autotune"):
                # The allocator may hold the memory of a capture that did not end, and believe that it goes on.
                raise BrokenProcess("a capture failed") from problem
            return False


# ---- the process ----------------------------------------------------------------------------------------------------


def take_standard_output() -> None:
    """Reserves standard output for the answers."""
    global answers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)


def end_with_parent() -> None:
    """SIGKILL when the parent process ends, so that no orphan occupies the device."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def import_torch() -> None:
    """For the calls and for this file, after standard output has been redirected."""
    global torch
    load_torch()
    import torch


def main() -> int:
    arguments = argparse.ArgumentParser(description="Measures PyTorch itself; `cudal1 baseline` runs this.")
    arguments.add_argument("--device", default="cpu", help="cpu or cuda:N")
    options = arguments.parse_args()
    take_standard_output()
    end_with_parent()
    import_torch()
    device = torch.device(options.device)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            say("broken", problem="torch finds no GPU (torch.cuda.is_available() is false)")
            return 1
        torch.cuda.set_device(device)
    triton = ""
    try:
        import triton as found

        triton = f", Triton {found.__version__}"
    except ImportError:
        pass
    pace = Pace(device)
    say("ready", torch=f"torch {torch.__version__}, Python {platform.python_version()}{triton}")
    for line in sys.stdin:
        request = json.loads(line)
        pace.known_us = request["best_pace_us"]
        if device.type == "cpu":
            torch.set_num_threads(max(1, request["threads"]))
        with torch.no_grad():
            if not Task(request, device, pace).run():
                return 1
        say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
