#!/usr/bin/env python3
"""Writes models whose time is that of memory, as PyTorch files: softmax, norms and pointwise operators over 256 MB, each
in float32, float16 and bfloat16.

    tests/gpu/memory_shapes.py FOLDER
    cudal1 run FOLDER --device cuda:0 --evaluations 12
    tests/gpu/memory_shapes.py --copy      what a copy of 256 MB takes there

Figures: tools/bench/RESULTS.md.
"""

import pathlib
import sys

BYTES = 256 << 20
ROW_BYTES = 16 << 10
MODELS = {
    "softmax": "torch.softmax(x, dim=-1)",
    "layer_norm": "nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias)",
    "rms_norm": "nn.functional.rms_norm(x, x.shape[-1:], self.weight)",
    "gelu": "nn.functional.gelu(x)",
    "residual": "torch.relu(x * self.weight + x)",
}
MODEL = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand({columns}).to(torch.{dtype}))
        self.bias = nn.Parameter(torch.rand({columns}).to(torch.{dtype}))

    def forward(self, x):
        return {value}


def get_inputs():
    return [torch.randn({rows}, {columns}, dtype=torch.{dtype})]


def get_init_inputs():
    return []
"""


def write(folder: pathlib.Path) -> None:
    for dtype, size in (("float32", 4), ("float16", 2), ("bfloat16", 2)):
        for name, value in MODELS.items():
            text = MODEL.format(value=value, dtype=dtype, rows=BYTES // ROW_BYTES, columns=ROW_BYTES // size)
            (folder / f"{name}_{dtype}.py").write_text(text)


def measure_copy() -> None:
    import torch

    source = torch.rand(BYTES // 4, device="cuda")
    target = torch.empty_like(source)
    took = []
    for _ in range(50):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        took.append(begin.elapsed_time(end) * 1000)
    us = sorted(took)[len(took) // 2]
    print(f"copy of 256 MB: {us:.1f} us, {2 * BYTES / us / 1e6:.2f} TB/s read and written")


if len(sys.argv) != 2:
    sys.exit(__doc__)
if sys.argv[1] == "--copy":
    measure_copy()
else:
    pathlib.Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    write(pathlib.Path(sys.argv[1]))
