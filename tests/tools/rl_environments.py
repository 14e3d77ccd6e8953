#!/usr/bin/env python3
"""By hand: environments for reinforcement learning, each with answers that a node on `cpu` judges. Needs the package of
its name in the environment that runs it: `pip install openenv-core==0.3.0`, or `pip install verifiers==0.4.0 uv`.

    rl_environments.py openenv|verifiers BIN [COUNT]
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from scripted_models import Server, answer
from served_node import ROOT, ServedNode, program

ANSWERS = [answer(program()), answer(program("a[row * rows + row] + b[row * columns + column]", "wrong")), "I do not know."]


def openenv(node, count):
    """`count` episodes of two rounds, eight at once, by the package's own client."""
    import uvicorn
    from openenv import GenericEnvClient

    from cudal1.adapters import Judge
    from cudal1.adapters.openenv_server import TaskEnvironment, make_app

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    app = make_app(lambda: TaskEnvironment(Judge(node.client()), ["tiny"], rounds=2))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)

    def episode(i):
        with GenericEnvClient(base_url=f"http://127.0.0.1:{port}").sync() as env:
            first = env.reset(task="tiny").observation
            assert "tiny" in first["prompt"], first
            steps = []
            while not steps or not steps[-1].done:
                steps.append(env.step({"answer": ANSWERS[(i + len(steps)) % len(ANSWERS)]}))
            last = steps[-1]
            assert last.observation["correct"] or len(steps) == 2
            assert (last.reward > 0) == bool(last.observation["correct"]) or last.observation["correct"], last
            return [s.observation["outcome"] for s in steps]

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(episode, range(count)))
    server.should_exit = True
    return Counter(o for steps in outcomes for o in steps)


def verifiers(node, count):
    """`count` episodes by the package's own command, with a scripted model that is right in its second turn."""
    with tempfile.TemporaryDirectory() as folder:
        rules = [{"match": "first gate that failed", "answers": [{"text": ANSWERS[0]}]}, {"answers": [{"text": ANSWERS[1]}]}]
        server = Server(pathlib.Path(folder), {"rules": rules}, "model")
        environment = {**os.environ, "CUDAL1_URL": node.url, "PYTHONPATH": str(ROOT / "tools/python_client"),
                       "OPENAI_API_KEY": "none", "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        command = [str(pathlib.Path(sys.executable).parent / "vf-eval"), "cudal1_verifiers", "--env.taskset.tasks", "tiny",
                   "--env.rounds", "2", "--env.writer.harness.id", "null", "--env.writer.runtime.type", "subprocess", "-m",
                   "scripted", "--client.base-url", server.url, "--client.api-key-var", "OPENAI_API_KEY", "-r", str(count),
                   "-c", "8", "--push", "False", "--no-rich", "-o", f"{folder}/out"]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
        episodes = [json.loads(line) for path in pathlib.Path(folder).rglob("traces.jsonl") for line in path.open()]
        server.close()
    if len(episodes) != count or not all(e["ok"] for e in episodes):
        raise SystemExit(f"{len(episodes)} episodes of {count}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    kernels = [(t["info"]["kernel"], t["rewards"]) for e in episodes for t in e["traces"]]
    for kernel, rewards in kernels:
        assert abs(sum(r["score"] if isinstance(r, dict) else r for r in rewards.values()) - kernel["reward"]) < 1e-9, rewards
    return Counter(f"{k['outcome']} in round {k['round']}" for k, _ in kernels)


def main():
    which, folder = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    node = ServedNode(folder)
    begin = time.monotonic()
    try:
        outcomes = {"openenv": openenv, "verifiers": verifiers}[which](node, count)
        jobs = node.client().jobs()
    finally:
        node.close()
    print(f"{count} episodes in {time.monotonic() - begin:.0f} s: {dict(outcomes)}; {len(jobs)} evaluations")


if __name__ == "__main__":
    main()
