#!/usr/bin/env python3
"""Writes small PyTorch models over many families and shapes: the problems of a recorded space (`cudal1 spaces`).

    tools/python/space_models.py FOLDER
    cudal1 tasks import FOLDER --out tasks

Every model is one file, FAMILY_SIZE.py. A family's sizes differ in rows and columns, odd ones included; all together
an evaluation takes milliseconds on a GPU, so that hundreds of schedules of each can be measured.
"""

import pathlib
import sys

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{init}
    def forward(self, {names}):
        {forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""

# Rows and columns: a few long rows, many short ones, small and large, odd.
PLANES = [(64, 1024), (1024, 1024), (4096, 512), (256, 16384), (1000, 1023), (16384, 128)]
# Rows, terms and columns.
PRODUCTS = [(128, 512, 512), (512, 512, 512), (1024, 1024, 1024), (64, 1024, 4096), (1000, 500, 750), (256, 4096, 256),
            (2048, 256, 2048), (32, 2048, 512)]

# One input of rows x columns.
OF_A_PLANE = {
    "softmax": "return torch.softmax(x, -1)",
    "log_softmax_scaled": "return F.log_softmax(x * 0.125, -1)",
    "layer_norm": "return F.layer_norm(x, x.shape[-1:])",
    "rms_norm": "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)",
    "l2_normalize": "return x / x.norm(dim=-1, keepdim=True)",
    "gelu_by_hand": "return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))",
    "swish_clamp": "return torch.clamp(x * torch.sigmoid(x) + 0.5 * x, -1.5, 3.0)",
    "mish_scaled": "return F.mish(x * 1.7 + 0.1) * 0.3",
    "row_logsumexp": "return torch.logsumexp(x, -1)",
    "row_mean_square": "return (x * x).mean(-1)",
    "row_max_abs": "return x.abs().amax(-1)",
    "column_sum": "return torch.sum(torch.relu(x), 0)",
    "cumulative_sum": "return torch.cumsum(x, -1)",
    "softplus_row_norm": "y = F.softplus(x)\n        return y / (y.sum(-1, keepdim=True) + 1e-3)",
}

# Two inputs of rows x columns.
OF_TWO_PLANES = {
    "mse_loss": "return F.mse_loss(x, y)",
    "gated_silu": "return F.silu(x) * y",
    "residual_layer_norm": "return F.layer_norm(x + y, x.shape[-1:])",
    "cosine": "return F.cosine_similarity(x, y, -1)",
    "huber_loss": "return F.smooth_l1_loss(x, y)",
    "masked_softmax": "return torch.softmax(torch.where(y > 0, x, torch.full_like(x, -1e9)), -1)",
}

# A layer's output.
OF_A_LAYER = {
    "linear": "return self.layer(x)",
    "linear_relu": "return torch.relu(self.layer(x))",
    "linear_gelu_scaled": "return F.gelu(self.layer(x)) * 0.5",
    "linear_swish_residual": "y = self.layer(x)\n        return y * torch.sigmoid(y) + 0.25 * y",
}


def plane(count):
    return lambda size: ", ".join(f"torch.randn({size[0]}, {size[1]})" for _ in range(count))


def models():
    """Pairs of a name and a file's text."""
    def text(names, forward, inputs, init="        pass\n"):
        return HEAD.format(names=names, forward=forward, inputs=inputs, init=init)

    for families, names in ((OF_A_PLANE, "x"), (OF_TWO_PLANES, "x, y")):
        inputs = plane(len(names.split(", ")))
        for family, forward in families.items():
            for size in PLANES:
                yield f"{family}_{size[0]}_{size[1]}", text(names, forward, inputs(size))
    for rows, terms, columns in PRODUCTS:
        size = f"{rows}_{terms}_{columns}"
        for family, forward in OF_A_LAYER.items():
            init = f"        self.layer = nn.Linear({terms}, {columns})\n"
            yield f"{family}_{size}", text("x", forward, f"torch.randn({rows}, {terms})", init)
        yield f"matmul_{size}", text("a, b", "return a @ b", f"torch.randn({rows}, {terms}), torch.randn({terms}, {columns})")
        yield f"matmul_transposed_{size}", text("a, b", "return a @ b.T",
                                                f"torch.randn({rows}, {terms}), torch.randn({columns}, {terms})")
    for batch, rows, terms, columns in ((16, 256, 64, 256), (64, 128, 32, 128), (8, 512, 256, 100)):
        yield (f"batched_{batch}_{rows}_{terms}_{columns}",
               text("a, b", "return torch.bmm(a, b)",
                    f"torch.randn({batch}, {rows}, {terms}), torch.randn({batch}, {terms}, {columns})"))
    for shape in ((16, 64, 32, 32), (8, 96, 28, 28), (4, 32, 128, 128)):
        size = "_".join(map(str, shape))
        inputs = f"torch.randn({', '.join(map(str, shape))})"
        norm = f"        self.norm = nn.{{}}\n"
        yield f"group_norm_{size}", text("x", "return F.silu(self.norm(x))", inputs, norm.format(f"GroupNorm(8, {shape[1]})"))
        yield f"instance_norm_{size}", text("x", "return self.norm(x)", inputs, norm.format(f"InstanceNorm2d({shape[1]})"))
        yield f"spatial_mean_{size}", text("x", "return x.mean((2, 3))", inputs)
        yield f"channel_softmax_{size}", text("x", "return torch.softmax(x, 1)", inputs)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in models():
        (folder / f"{name}.py").write_text(text)


if __name__ == "__main__":
    main()
