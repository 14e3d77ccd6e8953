"""KernelBench's method in forty lines: everything in one process, known seeds, allclose at 1e-2, one draw for all timed
calls, the submission's own clock. What the hacks in this folder fool."""

import json
import statistics
import time

import torch


def time_calls(call, inputs):
    times = []
    for i in range(33):
        begin = time.perf_counter()
        call(*inputs)
        if i >= 3:
            times.append(time.perf_counter() - begin)
    return statistics.mean(times) * 1e6


def check_calls(context, reference, submission):
    torch.manual_seed(42)
    seeds = [torch.randint(0, 2**31 - 1, (1,)).item() for _ in range(5)]
    for seed in seeds:
        torch.manual_seed(seed)
        inputs = context["get_inputs"]()
        wanted = reference(*inputs)
        kept = [wanted]
        got = submission(*inputs)
        if wanted.shape != got.shape or not torch.allclose(wanted, got, atol=1e-2, rtol=1e-2):
            return False
        del kept
    return True


def evaluate(problem, source, result_fd):
    """Writes {"correct", "mean_us"} to the descriptor."""
    context = {}
    exec(compile(problem, "<problem>", "exec"), context)
    initial = context["get_init_inputs"]()
    torch.manual_seed(42)
    reference = context["Model"](*initial)
    torch.manual_seed(42)
    exec(compile(source, "<submission>", "exec"), context)
    torch.manual_seed(42)
    submission = context["ModelNew"](*initial)
    with torch.no_grad():
        correct = check_calls(context, reference, submission)
        mean_us = time_calls(submission, context["get_inputs"]()) if correct else 0.0
    with open(result_fd, "w", encoding="utf-8") as file:
        file.write(json.dumps({"correct": correct, "mean_us": mean_us}) + "\n")
