#!/usr/bin/env python3
"""Evaluations a second of a served node on `cpu` with 1, 8 and 64 clients, and how long each waits, beside `cudal1
evaluate` one after the other. Each evaluation is of another program.

    serve_load.py BIN [SECONDS]
"""

import itertools
import statistics
import subprocess
import sys
import threading
import time

from served_node import ServedNode, program

BIN = sys.argv[1]
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
numbers = itertools.count()


def variant():
    n = next(numbers)
    return program(f"a[row * rows + row] * b[row * columns + column] + {n}.0f * 0.0f", f"v{n}")


def one_after_the_other(node):
    count, start = 0, time.monotonic()
    file = node.data / "v.cu1"
    while time.monotonic() < start + SECONDS:
        file.write_text(variant())
        subprocess.run([f"{BIN}/cudal1", "evaluate", "tiny", str(file), "--data", str(node.data)], env=node.environment,
                       capture_output=True)
        count += 1
    return count / (time.monotonic() - start)


def with_clients(node, clients):
    latencies, outcomes, lock = [], {}, threading.Lock()
    start = time.monotonic()

    def work(i):
        task = node.client(name=f"c{i}").task("tiny")
        while time.monotonic() < start + SECONDS:
            before = time.monotonic()
            verdict = task.evaluate(variant())
            with lock:
                latencies.append(time.monotonic() - before)
                outcomes[verdict.outcome] = outcomes.get(verdict.outcome, 0) + 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    rate = len(latencies) / (time.monotonic() - start)
    p95 = sorted(latencies)[int(0.95 * (len(latencies) - 1))]
    return rate, statistics.median(latencies), p95, outcomes


def main():
    node = ServedNode(BIN)
    try:
        print(f"`cudal1 evaluate`, one after the other: {one_after_the_other(node):.2f} a second")
        for clients in (1, 8, 64):
            rate, median, p95, outcomes = with_clients(node, clients)
            print(f"{clients} clients: {rate:.2f} a second; latency {median:.2f} s median, {p95:.2f} s p95; {outcomes}",
                  flush=True)
    finally:
        node.close()


if __name__ == "__main__":
    main()
