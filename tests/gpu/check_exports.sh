#!/usr/bin/env bash
# Tests exported KernelBench files on a GPU: exports programs that run step by step, on lanes, as one graph and as a
# graph of lanes; check.py then builds them, compares them with their references and times them. To be run by hand on a
# machine with a GPU, nvcc and a Python with torch 2.11; takes two minutes.
#
#   tests/gpu/check_exports.sh BIN [FOLDER]    BIN has cudal1; everything is written to FOLDER (new), else to a
#                                                temporary folder
#
# CUDAL1_PYTHON names that Python, EXPORT_DEVICE the device (cuda:0). Exits with 0 if all are correct and each
# way of running was exported.
set -euo pipefail
bin=$(cd "$1" && pwd)
folder=${2:-$(mktemp -d)}
python=${CUDAL1_PYTHON:-python3}
device=${EXPORT_DEVICE:-cuda:0}
mkdir -p "$folder/models" "$folder/programs"
export CUDAL1_DATA="$folder/data" CUDAL1_PYTHON="$python"

# Small branches, which a graph makes faster and lanes overlap; the last output is a view of an input.
for name in plain lanes graph graph_lanes; do
  cat >"$folder/models/$name.py" <<MODEL
import torch
import torch.nn as nn


class Model(nn.Module):  # $name
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(256, 256), nn.Linear(256, 256)

    def forward(self, x, y):
        left, right = x, y
        for _ in range(4):
            left, right = torch.relu(self.left(left)), torch.sigmoid(self.right(right))
        return left + right, torch.softmax(left, dim=1), y.view(-1)


def get_inputs():
    return [torch.randn(128, 256), torch.randn(128, 256)]


def get_init_inputs():
    return []
MODEL
done
cat >"$folder/models/kernels.py" <<'MODEL'
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(4096))

    def forward(self, x):
        return torch.softmax(torch.tanh(x * self.scale) * 2 + 1, dim=1) * x


def get_inputs():
    return [torch.randn(4096, 4096)]


def get_init_inputs():
    return []
MODEL
# What is kept from call to call: an attribute (KernelBench's level 3, problem 33), buffers, an input, and containers.
cat >"$folder/models/rnn.py" <<'MODEL'
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.randn(64, 128)
        self.i2h, self.h2o = nn.Linear(192, 128), nn.Linear(128, 32)

    def forward(self, x):
        self.hidden = self.hidden.to(x.device)
        self.hidden = torch.tanh(self.i2h(torch.cat((x, self.hidden), dim=1)))
        return self.h2o(self.hidden)


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
MODEL
cat >"$folder/models/buffers.py" <<'MODEL'
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.zeros(128))

    def forward(self, x, scale):
        self.calls += 1
        self.total.add_(x.mean(0))
        x.mul_(2)
        return {"y": torch.softmax(x + self.total, dim=1) * scale, "all": [self.total / self.calls, None]}


def get_inputs():
    return [torch.randn(256, 128), torch.randn(128) ** 2]


def get_init_inputs():
    return []
MODEL
"$bin/cudal1" tasks import "$folder/models" --out "$folder/tasks"

# The task's own steps as a program, run as the file's name says.
"$python" - "$folder" <<'PROGRAMS'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
ways = {"rnn": {"graph": True, "lanes": 1}, "buffers": {"graph": True, "lanes": 1},
        "lanes": {"graph": False, "lanes": 2}, "graph": {"graph": True, "lanes": 1},
        "graph_lanes": {"graph": True, "lanes": 2}}
for name, how in ways.items():
    task = json.loads((folder / "tasks" / f"{name}.json").read_text())
    bare = lambda tensors: [{k: t[k] for k in ("name", "dtype", "shape", "strides") if k in t} for t in tensors]
    head = {"format": 1, "name": name, "inputs": bare(task["inputs"]), "weights": bare(task.get("weights", [])),
            "setup": task.get("setup", []), "steps": task["steps"], "outputs": task["outputs"], "execution": how}
    (folder / "programs" / f"{name}.cu1").write_text(json.dumps(head) + "\n---\n")
PROGRAMS
for name in lanes graph graph_lanes rnn buffers; do
  "$bin/cudal1" evaluate "$name" "$folder/programs/$name.cu1" --tasks "$folder/tasks" --device "$device"
done
"$bin/cudal1" run --tasks "$folder/tasks" --task kernels --task plain --device "$device" --evaluations 12 --time 30s
"$bin/cudal1" export "$folder/exported" --format kernelbench --all

cd "$folder/exported/models"
for word in PROGRAM_GRAPH PROGRAM_LANES program_kernels; do
  printf '%-16s in %s\n' "$word" "$(grep -l "define $word\|$word()\[kernel\]" ./*_kernel.py | tr '\n' ' ')"
done
"$python" ../check.py
for word in "define PROGRAM_GRAPH" "define PROGRAM_LANES"; do
  grep -q "$word" ./*_kernel.py || { echo "no exported file has: $word" >&2; exit 1; }
done
