#!/usr/bin/env python3
"""Evaluations a second of a served node with 1, 8 and 64 clients, how long each waits, and how far scores of equal programs
lie apart (A/A), beside `cudal1 evaluate` one after the other. By hand.

    serve_load.py BIN [SECONDS] [--device cuda:0] [--task NAME]

Each evaluation is of another text, whose kernels do the same. On `cpu` a tiny task with quick settings, which says nothing of
scores; on a GPU a built-in task (softmax) and its hand-written program, with the settings of every node.
"""

import argparse
import collections
import itertools
import json
import pathlib
import statistics
import subprocess
import threading
import time

from served_node import QUICK, ROOT, TINY, ServedNode, program

numbers = itertools.count()


def variants_of(task, device):
    """A function that gives another text in each call."""
    if device == "cpu":
        text = program(name="row_scale")
        return lambda: text.replace("row_scale", f"row_scale_{next(numbers)}")
    text = (ROOT / f"config/programs/cuda/{task}.cu1").read_text()
    head = json.loads(text.partition("\n---\n")[0])
    kernels = {s["launch"] for s in head.get("setup", []) + head["steps"] if "launch" in s}

    def renamed():
        number, changed = next(numbers), text
        for name in kernels:
            changed = changed.replace(f'"{name}"', f'"{name}_{number}"').replace(f" {name}(", f" {name}_{number}(")
        return changed

    return renamed


def one_after_the_other(node, task, variant, seconds):
    count, start = 0, time.monotonic()
    file = node.data / "v.cu1"
    while time.monotonic() < start + seconds:
        file.write_text(variant())
        subprocess.run([node.bin / "cudal1", "evaluate", task, file, "--data", node.data], env=node.environment,
                       capture_output=True, check=True)
        count += 1
    return count / (time.monotonic() - start)


def with_clients(node, task, variant, clients, seconds):
    latencies, verdicts, lock = [], [], threading.Lock()
    start = time.monotonic()

    def work(i):
        served = node.client(name=f"c{i}").task(task)
        while time.monotonic() < start + seconds:
            before = time.monotonic()
            verdict = served.evaluate(variant())
            with lock:
                latencies.append(time.monotonic() - before)
                verdicts.append(verdict)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return len(latencies) / (time.monotonic() - start), sorted(latencies), verdicts


def spread(verdicts):
    """Of the scores of equal programs."""
    scores = [v.speedup for v in verdicts if v.speedup]
    if len(scores) < 2:
        return "no scores"
    middle = statistics.median(scores)
    off = sorted(abs(s / middle - 1) for s in scores)
    within = sum(o <= 0.01 for o in off)
    return (f"scores: median {middle:.3f}x, {within} of {len(scores)} within 1% of it, 95% of them within "
            f"{100 * off[int(0.95 * (len(off) - 1))]:.2f}%, all within {100 * off[-1]:.2f}%")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("seconds", type=float, nargs="?", default=20.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--task", default="softmax")
    o = parser.parse_args()
    task = TINY["name"] if o.device == "cpu" else o.task
    variant = variants_of(task, o.device)
    node = ServedNode(o.bin, device=o.device, settings=QUICK if o.device == "cpu" else [])
    try:
        print(f"`cudal1 evaluate`, one after the other: {one_after_the_other(node, task, variant, o.seconds):.2f} a second",
              flush=True)
        for clients in (1, 8, 64):
            rate, latencies, verdicts = with_clients(node, task, variant, clients, o.seconds)
            outcomes = dict(collections.Counter(v.outcome for v in verdicts))
            quantiles = ", ".join(f"{latencies[int(q * (len(latencies) - 1))]:.2f} s at {q:.0%}" for q in (0.5, 0.95, 1))
            print(f"{clients} clients: {rate:.2f} a second; latency {quantiles}; {outcomes}; {spread(verdicts)}", flush=True)
    finally:
        node.close()


if __name__ == "__main__":
    main()
