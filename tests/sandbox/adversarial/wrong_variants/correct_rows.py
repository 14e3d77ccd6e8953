"""Correct programs with one thread per row: normalisations, reductions, scans, losses.

Every kernel `k` has the same frame, which the wrong variants change: a thread processes the row `row < rows` of
`columns` elements, `in` points to it, and the body writes the result. Sums are in double, so that only the change of a
wrong variant causes errors.
"""

from __future__ import annotations

import dataclasses
from typing import Callable

from programs import Program, Task


@dataclasses.dataclass(frozen=True)
class Rows:
    reads: list[str]  # the first has the rows
    body: str
    writes: str = "y"  # with as many rows; if it has the same columns, `out` points to the row
    types: dict[str, str] = dataclasses.field(default_factory=dict)  # of elements that are not float
    columns: Callable[[Task], int] | None = None
    sizes: dict[str, Callable[[Task], int]] = dataclasses.field(default_factory=dict)


def frame(r: Rows, full: bool) -> str:
    kind = "double" if r.writes == "partial" else r.types.get(r.writes, "float")
    parameters = [f"const {r.types.get(name, 'float')}* {name}" for name in r.reads]
    parameters += [f"{kind}* {r.writes}", "int rows", "int columns"] + [f"int {name}" for name in r.sizes]
    out = f"\n    {kind}* out = {r.writes} + (long long)row * columns;" if full else ""
    return f"""__global__ void k({', '.join(parameters)}) {{
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {{
    const float* in = {r.reads[0]} + (long long)row * columns;{out}
{r.body.strip(chr(10))}
  }}
}}
"""


TOP = """
    float top = in[0];
    for (int c = 1; c < columns; ++c) top = fmaxf(top, in[c]);"""

SOFTMAX = TOP + """
    double sum = 0.0;
    for (int c = 0; c < columns; ++c) sum += expf(in[c] - top);
    const float scale = (float)(1.0 / sum);
    for (int c = 0; c < columns; ++c) out[c] = expf(in[c] - top) * scale;"""


def moments_of(element: str) -> str:
    return f"""
    double sum = 0.0;
    for (int c = 0; c < columns; ++c) sum += {element};
    const double mean = sum / columns;
    double squares = 0.0;
    for (int c = 0; c < columns; ++c) squares += ({element} - mean) * ({element} - mean);
    const float scale = (float)(1.0 / sqrt(squares / columns + 1e-5));
    const float middle = (float)mean;"""


ROWS = {
    "cumulative_sum": Rows(["x"], """
    double sum = 0.0;
    for (int c = 0; c < columns; ++c) {
      sum += in[c];
      out[c] = (float)sum;
    }"""),
    "group_norm_silu": Rows(["x", "weight", "bias"], moments_of("in[c]") + """
    for (int c = 0; c < columns; ++c) {
      const int channel = row % groups * of_group + c / plane;
      const float v = (in[c] - middle) * scale * weight[channel] + bias[channel];
      out[c] = v / (1.0f + expf(-v));
    }""", columns=lambda t: t.tensor("x").elements // t.tensor("x").shape[0] // groups_of(t),
                            sizes={"groups": lambda t: groups_of(t),
                                   "of_group": lambda t: t.tensor("x").shape[1] // groups_of(t),
                                   "plane": lambda t: t.tensor("x").shape[2] * t.tensor("x").shape[3]}),
    "l2_normalize": Rows(["x"], """
    double sum = 0.0;
    for (int c = 0; c < columns; ++c) sum += (double)in[c] * in[c];
    const float norm = fmaxf((float)sqrt(sum), 1e-12f);
    for (int c = 0; c < columns; ++c) out[c] = in[c] / norm;"""),
    "layer_norm": Rows(["x", "weight", "bias"], moments_of("in[c]") + """
    for (int c = 0; c < columns; ++c) out[c] = (in[c] - middle) * scale * weight[c] + bias[c];"""),
    "residual_layer_norm": Rows(["x", "residual", "weight", "bias"], """
    const float* other = residual + (long long)row * columns;""" + moments_of("(in[c] + other[c])") + """
    for (int c = 0; c < columns; ++c) {
      const float v = (in[c] + other[c] - middle) * scale * weight[c] + bias[c];
      out[c] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
    }"""),
    "rms_norm": Rows(["x", "weight"], """
    double sum = 0.0;
    for (int c = 0; c < columns; ++c) sum += (double)in[c] * in[c];
    const float scale = (float)(1.0 / sqrt(sum / columns + 1e-6));
    for (int c = 0; c < columns; ++c) out[c] = in[c] * scale * weight[c];"""),
    "row_abs_max": Rows(["x"], """
    float top = 0.0f;
    for (int c = 0; c < columns; ++c) top = fmaxf(top, fabsf(in[c]));
    y[row] = top / 127.0f;"""),
    "row_logsumexp": Rows(["x"], TOP + """
    double sum = 0.0;
    for (int c = 0; c < columns; ++c) sum += expf(in[c] - top);
    y[row] = (float)log(sum) + top;"""),
    "row_mean_square": Rows(["x"], """
    double sum = 0.0;
    for (int c = 0; c < columns; ++c) sum += (double)in[c] * in[c];
    y[row] = (float)(sum / columns);"""),
    "scaled_masked_softmax": Rows(["scores", "mask"], """
    const float* of = mask + (long long)(row % columns) * columns;""" + SOFTMAX
                                  .replace("in[0]", "in[0] * 0.125f + of[0]")
                                  .replace("in[c]", "in[c] * 0.125f + of[c]")),
    "softmax": Rows(["x"], SOFTMAX),
    # Tasks of this corpus (own_tasks.py).
    "row_argmax": Rows(["x"], """
    int best = 0;
    for (int c = 1; c < columns; ++c)
      if (in[c] > in[best]) best = c;
    y[row] = best;""", types={"y": "long long"}),
}

# One number over all rows: a partial result for each row, summed by one thread.
TERMS = {
    "cross_entropy": Rows(["scores", "label"], TOP + """
    double sum = 0.0;
    for (int c = 0; c < columns; ++c) sum += expf(in[c] - top);
    partial[row] = log(sum) + top - in[label[row]];""", "partial", {"label": "long long"}),
    "huber_loss": Rows(["prediction", "target"], """
    const float* other = target + (long long)row * columns;
    double sum = 0.0;
    for (int c = 0; c < columns; ++c) {
      const float difference = in[c] - other[c];
      const float distance = fabsf(difference);
      sum += distance < 1.0f ? 0.5f * difference * difference : distance - 0.5f;
    }
    partial[row] = sum / columns;""", "partial"),
    "kl_divergence": Rows(["student", "teacher"], """
    const float* other = teacher + (long long)row * columns;
    float top = in[0], other_top = other[0];
    for (int c = 1; c < columns; ++c) top = fmaxf(top, in[c]);
    for (int c = 1; c < columns; ++c) other_top = fmaxf(other_top, other[c]);
    double sum = 0.0, other_sum = 0.0;
    for (int c = 0; c < columns; ++c) sum += exp((double)in[c] - top);
    for (int c = 0; c < columns; ++c) other_sum += exp((double)other[c] - other_top);
    const double log_sum = log(sum) + top, other_log_sum = log(other_sum) + other_top;
    double total = 0.0;
    for (int c = 0; c < columns; ++c) {
      const double log_q = in[c] - log_sum, log_p = other[c] - other_log_sum;
      total += exp(log_p) * (log_p - log_q);
    }
    partial[row] = total;""", "partial"),
    "mse_loss": Rows(["prediction", "target"], """
    const float* other = target + (long long)row * columns;
    double sum = 0.0;
    for (int c = 0; c < columns; ++c) {
      const float difference = in[c] - other[c];
      sum += (double)difference * difference;
    }
    partial[row] = sum / columns;""", "partial"),
}

FINISH = """
__global__ void finish(const double* partial, float* loss, int rows) {
  double sum = 0.0;
  for (int row = 0; row < rows; ++row) sum += partial[row];
  *loss = (float)(sum / rows);
}
"""

# The sum of a linear layer's outputs is a product with the sum of the rows of its weight matrix.
ROW_SUM = """__global__ void add_up(const float* weight, const float* bias, double* of_column, double* of_bias,
                       int rows, int columns) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c < columns) {
    double sum = 0.0;
    for (int row = 0; row < rows; ++row) sum += weight[(long long)row * columns + c];
    of_column[c] = sum;
  }
  if (c == 0) {
    double sum = 0.0;
    for (int row = 0; row < rows; ++row) sum += bias[row];
    *of_bias = sum;
  }
}
__global__ void k(const float* x, const double* of_column, const double* of_bias, float* y, int rows, int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    const float* in = x + (long long)row * columns;
    double sum = *of_bias;
    for (int c = 0; c < columns; ++c) sum += in[c] * of_column[c];
    y[row] = (float)(sum * 0.5);
  }
}
"""

TWO_RESULTS = """__global__ void k(const float* x, float* total, float* top, int rows, int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    const float* in = x + (long long)row * columns;
    double sum = 0.0;
    float largest = in[0];
    for (int c = 0; c < columns; ++c) sum += in[c];
    for (int c = 1; c < columns; ++c) largest = fmaxf(largest, in[c]);
    total[row] = (float)sum;
    top[row] = largest;
  }
}
"""


def groups_of(task: Task) -> int:
    return {"cpu": 8, "cuda": 32}[task.profile]


def add_kernel(program: Program, r: Rows, given: str = "") -> Program:
    task = program.task
    source = task.tensor(r.reads[0])
    columns = r.columns(task) if r.columns else source.columns
    rows = source.elements // columns
    full = r.writes in task.outputs and task.tensor(r.writes).elements == source.elements
    program.source += frame(r, full)
    sizes = [f"i32 {size(task)}" for size in r.sizes.values()]
    reads = [f"in {name}" for name in r.reads]
    return program.launch_rows("k", rows, reads + [f"out {r.writes}", f"i32 {rows}", f"i32 {columns}"] + sizes)


def loss(task: Task) -> Program:
    r = TERMS[task.name]
    rows = task.tensor(r.reads[0]).rows
    p = add_kernel(Program(task).alloc("partial", (rows,), "float64"), r)
    p.source += FINISH
    return p.alloc("loss").launch("finish", 1, ["in partial", "out loss", f"i32 {rows}"], 1)


def row_sum(task: Task) -> Program:
    rows, columns = task.tensor("x").rows, task.tensor("x").columns
    p = Program(task, ROW_SUM).alloc("of_column", (columns,), "float64").alloc("of_bias", (1,), "float64")
    p.launch("add_up", columns, ["in weight", "in bias", "out of_column", "out of_bias",
                                 f"i32 {task.tensor('weight').rows}", f"i32 {columns}"], 32)
    arguments = ["in x", "in of_column", "in of_bias", "out y", f"i32 {rows}", f"i32 {columns}"]
    return p.alloc("y").launch_rows("k", rows, arguments)


def attention(task: Task) -> Program:
    batch, length, _ = task.tensor("q").shape
    scores = (batch, length, length)
    p = Program(task).aten("transpose.int", "kt", self="k", dim0=1, dim1=2).aten("bmm", "scores", self="q", mat2="kt")
    p.source = frame(Rows(["scores"], SOFTMAX.replace("in[0]", "in[0] * 0.125f").replace("in[c]", "in[c] * 0.125f"),
                          "weights"), True)
    rows = batch * length
    p.alloc("weights", scores).launch_rows("k", rows, ["in scores", "out weights", f"i32 {rows}", f"i32 {length}"])
    return p.aten("bmm", "y", self="weights", mat2="v")


def two_results(task: Task) -> Program:
    rows, columns = task.tensor("x").rows, task.tensor("x").columns
    return Program(task, TWO_RESULTS).alloc("total").alloc("top").launch_rows(
        "k", rows, ["in x", "out total", "out top", f"i32 {rows}", f"i32 {columns}"])


def row_program(task: Task) -> Program | None:
    special = {"linear_row_sum": row_sum, "attention": attention, "row_sum_and_max": two_results}
    if task.name in special:
        return special[task.name](task)
    if task.name in TERMS:
        return loss(task)
    return add_kernel(Program(task).alloc(task.output), ROWS[task.name]) if task.name in ROWS else None
