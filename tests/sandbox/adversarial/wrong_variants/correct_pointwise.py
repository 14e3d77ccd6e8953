"""Correct programs with one thread per output element: pointwise chains, and products and convolutions with a kernel
after the library's call.

Every kernel `k` has the same frame, which the wrong variants change: `i < n`, `r` is the element, `y[i] = r` stores it.
"""

from __future__ import annotations

import dataclasses
from typing import Callable

from programs import Program, Task

Sizes = Callable[[Task], dict[str, int]]


def channels(tensor: str) -> Sizes:
    """For a batch of images: element i belongs to channel i / plane % channels."""
    def sizes(t: Task) -> dict[str, int]:
        shape = t.tensor(tensor).shape
        return {"plane": shape[2] * shape[3], "channels": shape[1]}
    return sizes


def columns(t: Task) -> dict[str, int]:
    return {"columns": t.tensor(t.output).columns}


def none(_: Task) -> dict[str, int]:
    return {}


@dataclasses.dataclass(frozen=True)
class Pointwise:
    reads: list[str]
    body: str  # computes r
    sizes: Sizes = none
    types: dict[str, str] = dataclasses.field(default_factory=dict)  # of elements that are not float


def frame(p: Pointwise, sizes: dict[str, int]) -> str:
    parameters = [f"const {p.types.get(name, 'float')}* {name}" for name in p.reads]
    parameters += [f"{p.types.get('y', 'float')}* y", "int n"] + [f"int {name}" for name in sizes]
    return f"""__global__ void k({', '.join(parameters)}) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {{
{p.body.strip(chr(10))}
    y[i] = r;
  }}
}}
"""


def add_kernel(program: Program, p: Pointwise, out: str) -> Program:
    """Allocates the result and launches the frame over it."""
    sizes = p.sizes(program.task)
    n = program.task.tensor(out).elements
    program.source += frame(p, sizes)
    arguments = [f"in {name}" for name in p.reads] + [f"out {out}", f"i32 {n}"]
    return program.alloc(out).launch("k", n, arguments + [f"i32 {value}" for value in sizes.values()])


POINTWISE = {
    "affine_clamp_mish": Pointwise(["x", "scale", "shift"], """
    const int c = i / plane % channels;
    float v = x[i] * scale[c] + shift[c];
    v = fminf(fmaxf(v, -3.0f), 3.0f);
    const float r = v * tanhf(log1pf(expf(v)));""", channels("x")),
    "batch_norm_relu": Pointwise(["x", "weight", "bias", "running_mean", "running_var"], """
    const int c = i / plane % channels;
    const float v = (x[i] - running_mean[c]) / sqrtf(running_var[c] + 1e-5f) * weight[c] + bias[c];
    const float r = fmaxf(v, 0.0f);""", channels("x")),
    "bias_relu_twice": Pointwise(["x", "bias"], """
    const float v = x[i] + bias[i % columns];
    const float r = fmaxf(v, 0.0f) * 0.125f;""", columns),
    "diagonal_matmul": Pointwise(["a", "b"], """
    const int row = i / columns;
    const float r = a[(long long)row * rows + row] * b[i];""",
                                 lambda t: {"columns": t.tensor("b").columns, "rows": t.tensor("b").rows}),
    "gated_silu": Pointwise(["gate", "value"], """
    const float g = gate[i];
    const float r = g / (1.0f + expf(-g)) * value[i];"""),
    "gelu_by_hand": Pointwise(["x"], """
    const float v = x[i];
    const float inner = 0.7978845608f * (v + 0.044715f * v * v * v);
    const float r = 0.5f * v * (1.0f + tanhf(inner));"""),
    "hard_swish_chain": Pointwise(["x", "residual"], """
    const float v = x[i];
    const float gate = fminf(fmaxf(v + 3.0f, 0.0f), 6.0f);
    const float r = v * (gate / 6.0f) + residual[i];"""),
    "pool_sigmoid": Pointwise(["x", "skip"], """
    const long long at = (long long)(i / half_width) * 2 * width + i % half_width * 2;
    const float top = fmaxf(x[at] + skip[at], x[at + 1] + skip[at + 1]);
    const float low = fmaxf(x[at + width] + skip[at + width], x[at + width + 1] + skip[at + width + 1]);
    const float v = fmaxf(top, low) - 1.0f;
    const float r = 1.0f / (1.0f + expf(-v));""",
                              lambda t: {"width": t.tensor("x").columns, "half_width": t.tensor("y").columns}),
    # Tasks of this corpus (own_tasks.py).
    "relu_of_uniform": Pointwise(["x"], """
    const float v = x[i];
    const float r = v > 0.0f ? v : 0.0f;"""),
    "root_of_normal": Pointwise(["x"], """
    const float r = sqrtf(x[i]);"""),
    "reciprocal_of_relu": Pointwise(["x"], """
    const float r = 1.0f / fmaxf(x[i], 0.0f);"""),
    "log_of_relu": Pointwise(["x"], """
    const float r = logf(fmaxf(x[i], 0.0f));"""),
    "positive_mask": Pointwise(["x"], """
    const bool r = x[i] > 0.5f;""", none, {"y": "bool"}),
    "almost_constant": Pointwise(["x"], """
    const float v = x[i] * 3e-6f;
    const float r = v + 1.0f;"""),
    "half_relu": Pointwise(["x"], """
    const unsigned short bits = x[i];
    const unsigned short r = bits >> 15 ? 0 : bits;""", none, {"x": "unsigned short", "y": "unsigned short"}),
}


# After a call of the library, whose result `h` the kernel reads.
EPILOGUES = {
    "conv2d_epilogue": Pointwise(["h", "bias"], """
    const int c = i / plane % channels;
    const float r = (fmaxf(h[i], 0.0f) + bias[c]) * 0.5f;""", channels("y")),
    "linear_gelu": Pointwise(["h"], """
    const float v = h[i];
    const float r = 0.5f * v * (1.0f + erff(v * 0.70710678f));"""),
    "matmul_epilogue": Pointwise(["h", "residual"], """
    const float v = h[i];
    const float r = tanhf((v > 0.0f ? v : 0.1f * v) * 0.5f + residual[i]);"""),
    "triangular_matmul": Pointwise(["h"], """
    const int row = i / columns, column = i % columns;
    const float r = row <= column ? h[i] : 0.0f;""", columns),
}


def product_of(task: Task) -> Program:
    """The library's call, as in the task's own program."""
    p = Program(task)
    if task.name == "conv2d_epilogue":
        return p.aten("conv2d", "h", input="x", weight="weight", bias="conv_bias", stride=[1, 1], padding=[1, 1])
    if task.name == "linear_gelu":
        return p.aten("linear", "h", input="x", weight="weight", bias="bias")
    if task.name == "matmul_epilogue":
        return p.aten("addmm", "h", self="bias", mat1="x", mat2="weight")
    return p.aten("mm", "h", self="a", mat2="b")


def mlp(task: Task) -> Program:
    hidden = (task.tensor("x").rows, task.tensor("w1").rows)
    n = hidden[0] * hidden[1]
    p = Program(task, frame(Pointwise(["h"], "    const float r = fmaxf(h[i], 0.0f);"), {}))
    p.aten("linear", "h1", input="x", weight="w1", bias="b1")
    p.alloc("a1", hidden).launch("k", n, ["in h1", "out a1", f"i32 {n}"])
    p.aten("linear", "h2", input="a1", weight="w2", bias="b2")
    p.alloc("a2", hidden).launch("k", n, ["in h2", "out a2", f"i32 {n}"])
    return p.aten("linear", "y", input="a2", weight="w3", bias="b3")


def pointwise_program(task: Task) -> Program | None:
    if task.name == "mlp":
        return mlp(task)
    if task.name in POINTWISE:
        return add_kernel(Program(task), POINTWISE[task.name], task.output)
    if task.name in EPILOGUES:
        return add_kernel(product_of(task), EPILOGUES[task.name], task.output)
    return None
