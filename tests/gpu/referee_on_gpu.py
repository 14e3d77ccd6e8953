#!/usr/bin/env python3
"""On a machine with a GPU: whether the referee of Python files works there, from what it needs to whole judgements.

    referee_on_gpu.py [--unconfined] [--pools N] [PART...] [NAME...]    only judgements whose name holds one of these

    machine   memory that two processes map, workers, and how long several take to start at once
    same      PyTorch's own code as a submission, for four problems: neither faster nor slower
    files     judgements of a few files
    attacks   none of submissions/hacks may be accepted as faster, none of submissions/honest refused

Exits with 1 if something is not as it is meant. Needs a Python with torch and numpy; for CUDA files nvcc and ninja.
"""

import statistics
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
HERE = pathlib.Path(__file__).resolve().parent
PARTS = ("machine", "same", "files", "attacks")
WORK = "torch.relu(x) * 2 + torch.tanh(x)"
# name: source, whether it should be accepted
FILES = {
    "as_eager": (HEAD + f"    def forward(self, x):\n        return {WORK}\n", True),
    "compiled": (HEAD + "    def __init__(self):\n        super().__init__()\n        self.f = torch.compile(lambda x: "
                 f"{WORK})\n    def forward(self, x):\n        return self.f(x)\n", True),
    "cuda": (KERNEL, True),
    "triton": (TRITON, True),
    "wrong": (HEAD + "    def forward(self, x):\n        return torch.relu(x) * 2\n", False),
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
            with tempfile.TemporaryDirectory() as folder:
                os.chmod(folder, 0o777)  # a worker is another user
                with Worker(zygote, Limits(data_bytes=16 << 30), built=folder) as worker:
                    loaded = worker.ask("load", 120, problem=PROBLEM, submission=None, seed=1, double=False)
                    for said in (loaded, worker.share(1 << 20)):
                        if "problem" in said:
                            raise RuntimeError(said["problem"] + "; it printed: "
                                               + worker.output.kept.decode()[-1500:])
                    return f"missing: {worker.missing}"
        finally:
            zygote.close()
    return run


def start_times(confined):
    def run():
        zygote = Zygote(max(os.sched_getaffinity(0)), confined, places.place_of("cuda:0", 1))
        try:
            zygote.wait()
            found = []
            for count in (1, 1, 3, 7):
                begin = time.perf_counter()
                workers = [Worker(zygote, Limits(data_bytes=16 << 30)) for _ in range(count)]
                for worker in workers:
                    worker.ready()
                found.append(f"{count} in {time.perf_counter() - begin:.2f} s")
                for worker in workers:
                    worker.close()
            return ", ".join(found)
        finally:
            zygote.close()
    return run


def shown(v, as_meant, begin):
    interval = [round(x, 3) for x in v.interval]
    print(f"{'as meant' if as_meant else 'NOT AS MEANT'}: {v.name}: {v.verdict} {v.kind} {v.why[:160]} {v.speedup:.3f} "
          f"{interval} eager {v.eager_us:.1f} us own {v.own_us:.1f} us, burst {v.burst} taken {v.taken_us} us, "
          f"{v.evidence[:2]} {v.notes[:2]}, {time.perf_counter() - begin:.1f} s {v.spent}", flush=True)
    return [] if as_meant else [v.name]


def print_times(found):
    """Of each pool: microseconds of eager's and the submission's calls, in order."""
    for f in found:
        for name, times, late in (("eager", f.eager_ns, f.eager_late_ns), ("own", f.own_ns, f.own_late_ns)):
            print(f"    {name}: {' '.join(f'{t / 1000:.1f}' for t in times)}; copied "
                  f"{statistics.median(late) / 1000:.0f} us behind the answer")


def same_code(referee, names):
    """The same source as submission: it may be called neither faster nor slower."""
    conclude, wrong = referee.conclude, []
    referee.conclude = lambda found, verdict: (print_times(found), conclude(found, verdict))
    for name in ("wave", "product", "large_product", "small"):
        if names and name not in names:
            continue
        problem = HERE.joinpath("submissions", "problems", f"{name}.py").read_text(encoding="utf-8")
        source = problem.replace("class Model(", "class ModelNew(")
        for i in range(3):
            begin = time.perf_counter()
            v = referee.judge(readers.Submission(f"{name} {i}", source, problem))
            wrong += shown(v, v.verdict == "correct", begin)
            for pool, firsts in zip(v.ratios, v.own_first):
                parts = [[r for r, first in zip(pool, firsts) if first == wanted] for wanted in (True, False)]
                print("    own first, eager first: " + ", ".join(f"{statistics.median(p):.4f}" for p in parts if p))
    referee.conclude = conclude
    return wrong


def files(referee, names):
    chosen = {n: f for n, f in FILES.items() if not names or any(name in n for name in names)}
    submissions = {n: readers.Submission(n, source, PROBLEM) for n, (source, _) in chosen.items()}
    referee.build_ahead([s for s in submissions.values() if referee.must_build(s)])
    wrong = []
    for name, (_, accepted) in chosen.items():
        begin = time.perf_counter()
        v = referee.judge(submissions[name])
        wrong += shown(v, v.accepted == accepted, begin)
    return wrong


def attacks(referee, names):
    wrong = []
    for folder, accepted in (("hacks", False), ("honest", True)):
        for path in sorted(HERE.joinpath("submissions", folder).glob("*.py")):
            if names and not any(n in path.stem for n in names):
                continue
            text = path.read_text(encoding="utf-8")
            problem = HERE.joinpath("submissions", "problems", text.split("# problem: ")[1].split()[0] + ".py")
            begin = time.perf_counter()
            v = referee.judge(readers.Submission(f"{folder}/{path.stem}", text, problem.read_text(encoding="utf-8")))
            # A memo of whole inputs is right, and slower: it gains nothing.
            wrong += shown(v, v.accepted == accepted or (not accepted and v.verdict == "slower"), begin)
    return wrong


def main():
    words = sys.argv[1:]
    pools = int(words.pop(words.index("--pools") + 1)) if "--pools" in words else 2
    confined = "--unconfined" not in words
    words = [w for w in words if not w.startswith("--")]
    names = [w for w in words if w not in PARTS]
    parts = [w for w in words if w in PARTS] or list(PARTS)
    torch.cuda.init()
    print(torch.cuda.get_device_name(0), torch.__version__)
    wrong = []
    if "machine" in parts:
        steps = [("memory that two mappings share", shared_memory), ("a worker, unconfined", worker_with(False))]
        if confined:
            steps.append(("a worker, confined", worker_with(True)))
        steps.append(("workers at once", start_times(confined)))
        wrong += [name for name, what in steps if step(name, what) is None]
    with Referee(confined=confined, pools=pools, device="cuda:0") as referee:
        for part, judge in (("same", same_code), ("files", files), ("attacks", attacks)):
            if part in parts:
                wrong += judge(referee, names)
    print(f"not as meant: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
