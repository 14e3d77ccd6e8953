#!/usr/bin/env bash
# Tests packages of `cudal1 export --format torch` on a GPU, from nothing: the test of modules in a user's hands on the
# GPU, then a search of three models whose variants are exported, verified, compiled again as for another architecture,
# profiled, and applied beside eager, torch.compile, max-autotune and a CUDA graph. To be run by hand on a machine with a
# GPU and a Python with torch 2.11; needs no nvcc; takes about seven minutes.
#
#   tests/gpu/check_packages.sh BIN [FOLDER]    BIN has cudal1; everything is written to FOLDER (new), else to a temporary one
#
# CUDAL1_PYTHON names that Python, EXPORT_DEVICE the device (cuda:0). Exits with 0 if all are right; `apply` may find that a
# model is not faster, which is printed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$(cd "$1" && pwd)
folder=${2:-$(mktemp -d)}
python=${CUDAL1_PYTHON:-python3}
device=${EXPORT_DEVICE:-cuda:0}
mkdir -p "$folder/models"
export CUDAL1_PYTHON="$python" XDG_CACHE_HOME="$folder/cache"
failed=0

test=$here/../tools/torch_package_test.py
[ -f "$test" ] || test=$here/tests/tools/torch_package_test.py  # in the archive of pack.sh
"$python" "$test" "$bin/cudal1" --device "$device" || failed=1

# Kernels alone; library products with pointwise steps around them in bfloat16; small steps, which a graph makes faster.
cat >"$folder/models/gates.py" <<'MODEL'
import torch
import torch.nn as nn


class Kernels(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(4096))

    def forward(self, x):
        return torch.softmax(torch.tanh(x * self.scale) * 2 + 1, dim=1) * x

    @staticmethod
    def example_inputs():
        yield (torch.randn(4096, 4096),)
        yield (torch.randn(512, 4096),)


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(1024)
        self.gate, self.up = nn.Linear(1024, 2816, bias=False), nn.Linear(1024, 2816, bias=False)
        self.down = nn.Linear(2816, 1024, bias=False)
        self.to(torch.bfloat16)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))

    @staticmethod
    def example_inputs():
        return (torch.randn(2048, 1024, dtype=torch.bfloat16),)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(256, 256), nn.Linear(256, 256)

    def forward(self, x, y):
        for _ in range(4):
            x, y = torch.relu(self.left(x)), torch.sigmoid(self.right(y))
        return x + y, torch.softmax(x, dim=1)

    @staticmethod
    def example_inputs():
        return torch.randn(128, 256), torch.randn(128, 256)
MODEL
export CUDAL1_DATA="$folder/data"
for name in Kernels SwiGLU Small; do
  "$bin/cudal1" run "$folder/models/gates.py:$name" --device "$device" --time 40s --evaluations 48
done
"$bin/cudal1" export "$folder/fast_gates" --format torch
"$bin/cudal1" verify "$folder/fast_gates" --device "$device" --json >"$folder/verify.json" || failed=1
grep -E '"(task|status|why|speedup)"' "$folder/verify.json"

# As on another architecture: the index names one that is not here, so that NVRTC compiles what is here, once.
cp -r "$folder/fast_gates" "$folder/other"
"$python" - "$folder/other/fast_gates/index.json" <<'PYTHON'
import json, sys
index = json.load(open(sys.argv[1]))
for program in index["programs"]:
    if "kernels" in program:
        program["kernels"]["architecture"] = "sm_00"
json.dump(index, open(sys.argv[1], "w"))
PYTHON
"$bin/cudal1" verify "$folder/other" --device "$device" --no-times || failed=1
ls "$folder/cache/cudal1/kernels"

for task in gates.Kernels_4096x4096 gates.SwiGLU gates.Small; do
  "$bin/cudal1" profile "$task" || failed=1
done
for name in Kernels SwiGLU Small; do
  "$bin/cudal1" apply "$folder/models/gates.py:$name" --package "$folder/fast_gates" --device "$device" --than eager \
    --than compile || echo "$name: exit code $?"
done
[ $failed -eq 0 ] && echo "all packages are right"
exit $failed
