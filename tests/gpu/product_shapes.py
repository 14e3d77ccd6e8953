#!/usr/bin/env python3
"""Writes models of 64 matrix products as PyTorch files: powers of two, odd sizes, skinny, batched, transposed, layers.

    tests/gpu/product_shapes.py FOLDER
    cudal1 run FOLDER --device cuda:0 --evaluations 7

The 37 in float32 are f_*.py, the 27 in bfloat16 b_*.py; products of odd sizes are left out there, since kernels copy
half types in pairs. Figures: tools/bench/RESULTS.md.
"""

import pathlib
import sys

PLAIN = [(128, 128, 128), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048),
         (4096, 4096, 4096), (1000, 1000, 1000), (999, 1001, 1003), (2047, 2049, 2051), (777, 3333, 555),
         (16, 4096, 4096), (1, 4096, 4096), (8192, 1024, 256), (256, 1024, 8192), (4096, 64, 4096), (64, 8192, 64),
         (512, 16384, 512), (3000, 500, 7000)]
FLOAT32_ALONE = [(300, 400, 500), (8, 1024, 1024), (32, 4096, 11008), (4096, 4096, 11008), (12800, 80, 3072),
                 (6144, 6144, 6144), (1500, 1500, 1500)]
BATCHES = [(8, 512, 512, 512), (64, 128, 64, 128), (16, 1024, 128, 1024)]
LAYERS = [(64, 1024, 1024), (1024, 1024, 4096), (4096, 1024, 4096), (8192, 4096, 1024), (2048, 768, 3072)]
TRANSPOSED = [(2048, 2048, 2048), (1536, 4096, 1024)]

PRODUCT = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return {product}


def get_inputs():
    return [torch.randn({a}, dtype=torch.{dtype}), torch.randn({b}, dtype=torch.{dtype})]


def get_init_inputs():
    return []
"""

LAYER = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear({terms}, {columns}, dtype=torch.{dtype})

    def forward(self, x):
        return torch.relu(self.layer(x))


def get_inputs():
    return [torch.randn({rows}, {terms}, dtype=torch.{dtype})]


def get_init_inputs():
    return []
"""


def models(dtype):
    """Pairs of a name and a source; sizes are rows, terms and columns, after the number of matrices of a batch."""
    plain = PLAIN + FLOAT32_ALONE if dtype == "float32" else [s for s in PLAIN if s[1] % 2 == s[2] % 2 == 0]

    def product(name, text, a, b):
        return name, PRODUCT.format(product=text, a=a, b=b, dtype=dtype)

    for m, k, n in plain:
        yield product(f"mm_{m}_{k}_{n}", "a @ b", (m, k), (k, n))
    for count, m, k, n in BATCHES:
        yield product(f"bmm_{count}_{m}_{k}_{n}", "torch.bmm(a, b)", (count, m, k), (count, k, n))
    for m, k, n in TRANSPOSED:
        yield product(f"mt_{m}_{k}_{n}", "a.t() @ b", (k, m), (k, n))
        yield product(f"nt_{m}_{k}_{n}", "a @ b.t()", (m, k), (n, k))
    for m, k, n in LAYERS:
        yield f"linear_{m}_{k}_{n}", LAYER.format(rows=m, terms=k, columns=n, dtype=dtype)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, dtype in (("f", "float32"), ("b", "bfloat16")):
        for name, source in models(dtype):
            (folder / f"{prefix}_{name}.py").write_text(source)


if __name__ == "__main__":
    main()
