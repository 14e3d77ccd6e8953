#!/usr/bin/env python3
"""By hand, on a machine with a GPU: whether the referee of Python files works there, step by step, from what it needs to
whole judgements. It was not run on a GPU yet, so `audit --kernelbench` judges on `cpu` alone.

    referee_on_gpu.py [--unconfined] [NAME...]     only judgements whose name holds one of these

Needs a Python with torch and numpy; for CUDA files also nvcc and ninja.
"""

import os
import pathlib
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "python"))

import torch

from submissions import places, readers
from submissions.referee import Referee
from submissions.workers import Limits, Worker, Zygote

PROBLEM = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + torch.tanh(x)
def get_inputs():
    return [torch.randn(4096, 4096)]
def get_init_inputs():
    return []
"""
HEAD = "import torch\nclass ModelNew(torch.nn.Module):\n"
KERNEL = '''import torch
from torch.utils.cpp_extension import load_inline
source = """
#include <torch/extension.h>
__global__ void f(const float* x, float* y, long n) {
  long i = blockIdx.x * 256L + threadIdx.x;
  if (i < n) { float v = x[i]; y[i] = (v > 0 ? v : v != v ? v : 0) * 2 + tanhf(v); }
}
torch::Tensor g(torch::Tensor x) {
  auto y = torch::empty_like(x);
  f<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
"""
made = load_inline("made", "torch::Tensor g(torch::Tensor x);", source, functions=["g"])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return made.g(x)
'''
TRITON = '''import torch
import triton
import triton.language as tl
@triton.jit
def f(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    e = tl.exp(-2 * tl.abs(v))
    t = (1 - e) / (1 + e)
    tl.store(y + i, tl.maximum(v, 0.0) * 2 + tl.where(v < 0, -t, t), mask=i < n)
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        f[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), B=1024)
        return y
'''
WORK = "torch.relu(x) * 2 + torch.tanh(x)"
# name: source, whether it should be accepted
FILES = {
    "as_eager": (HEAD + f"    def forward(self, x):\n        return {WORK}\n", True),
    "compiled": (HEAD + "    def __init__(self):\n        super().__init__()\n        self.f = torch.compile(lambda x: "
                 f"{WORK})\n    def forward(self, x):\n        return self.f(x)\n", True),
    "cuda": (KERNEL, True),
    "triton": (TRITON, True),
    "wrong": (HEAD + "    def forward(self, x):\n        return torch.relu(x) * 2\n", False),
    "side_stream": (HEAD + "    def forward(self, x):\n        if not hasattr(self, 's'):\n            self.s = "
                    "torch.cuda.Stream()\n        self.s.wait_stream(torch.cuda.current_stream())\n        with "
                    f"torch.cuda.stream(self.s):\n            y = {WORK}\n            for _ in range(20):\n                "
                    f"y = {WORK}\n        return y\n", True),  # synchronize waits for all streams: honest, and slow
    "no_synchronize": ("import torch\ntorch.cuda.synchronize = lambda *a: None\nimport submissions.worker\n"
                       "submissions.worker.synchronize = lambda *a: None\nclass ModelNew(torch.nn.Module):\n"
                       f"    def forward(self, x):\n        for _ in range(20):\n            y = {WORK}\n        return y\n",
                       False),
    "memo": (HEAD + "    def forward(self, x):\n        key = x.data_ptr(), x._version\n        self.kept = getattr(self, "
             f"'kept', {{}})\n        if key not in self.kept:\n            self.kept[key] = {WORK}\n        return "
             "self.kept[key]\n", False),
    "sum_as_key": (HEAD + "    def forward(self, x):\n        key = float(x[0].sum())\n        self.kept = getattr(self, "
                   f"'kept', {{}})\n        if key not in self.kept:\n            self.kept[key] = {WORK}\n        return "
                   "self.kept[key].clone()\n", False),
    "on_cpu": (HEAD + f"    def forward(self, x):\n        return ({WORK}).cpu()\n", False),
}


def step(name, what):
    begin = time.perf_counter()
    try:
        result = what()
    except Exception:
        traceback.print_exc()
        print(f"FAILED  {name} ({time.perf_counter() - begin:.1f} s)", flush=True)
        return None
    print(f"ok      {name} ({time.perf_counter() - begin:.1f} s): {result}", flush=True)
    return result


def shared_memory():
    from submissions import device_memory

    place = places.place_of("cuda:0", 1)
    fd, arena = place.memory(1 << 20)
    leaf = {"dtype": "bfloat16", "shape": [4, 8]}
    arena.view(leaf, 256).fill_(1.5)
    other = device_memory.DeviceArena(fd, arena.size)
    os.close(fd)
    same = bool((other.view(leaf, 256) == 1.5).all())
    if not same:
        raise SystemExit("a second mapping has other contents")
    return f"{arena.size >> 20} MiB seen twice"


def worker_with(confined):
    def run():
        zygote = Zygote(max(os.sched_getaffinity(0)), confined, places.place_of("cuda:0", 1))
        try:
            with tempfile.TemporaryDirectory() as folder, Worker(zygote, Limits(data_bytes=16 << 30), built=folder) as worker:
                said = worker.ask("load", 120, problem=PROBLEM, submission=None, seed=1, double=False)
                if "problem" in said:
                    raise RuntimeError(said["problem"] + "; it printed: " + worker.output.kept.decode()[-1500:])
                shared = worker.share(1 << 20)
                if "problem" in shared:
                    raise RuntimeError(shared["problem"] + "; it printed: " + worker.output.kept.decode()[-1500:])
                return f"missing: {worker.missing}"
        finally:
            zygote.close()
    return run


def judgements(confined, names):
    with Referee(confined=confined, pools=2, device="cuda:0") as referee:
        for name, (source, accepted) in FILES.items():
            if names and not any(n in name for n in names):
                continue
            begin = time.perf_counter()
            s = readers.Submission(name, source, PROBLEM)
            v = referee.judge(s)
            as_meant = "as meant" if v.accepted == accepted else "NOT AS MEANT"
            print(f"{as_meant}: {name}: {v.verdict} {v.kind} {v.why[:200]} {v.speedup:.3f} {v.interval} eager {v.eager_us:.0f} "
                  f"us own {v.own_us:.0f} us, {v.evidence[:3]} {v.notes[:3]}, {time.perf_counter() - begin:.1f} s", flush=True)


def main():
    words = sys.argv[1:]
    confined = "--unconfined" not in words
    torch.cuda.init()
    print(torch.cuda.get_device_name(0), torch.__version__)
    step("memory that two mappings share", shared_memory)
    step("a worker, unconfined", worker_with(False))
    if confined and step("a worker, confined", worker_with(True)) is None:
        confined = False
    judgements(confined, [w for w in words if not w.startswith("--")])


if __name__ == "__main__":
    main()
