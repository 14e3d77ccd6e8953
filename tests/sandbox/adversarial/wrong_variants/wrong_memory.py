"""Programs that use memory outside their tensors, rely on its content, do not end, or crash."""

from __future__ import annotations

from corpus import BY_POISON, DEVICES, Variant, wrong
from programs import STORE, Program, add_source, after, argument, before, edit, set_head, store, with_head

FAR = "(1ll << 40)"  # elements; beyond all mapped memory
CPU = ("cpu",)
# The element with a last bit that depends on its address.
LAST_BIT = ("__uint_as_float(__float_as_uint(r) ^ "
            "(((unsigned)((unsigned long long)(y + i) >> 6) * 2654435761u) >> 31))")


def unwritten() -> list[Variant]:
    kind = "unwritten output"
    return [
        wrong("gelu_by_hand", kind, "where_negative", edit(STORE, "if (v > 0.0f) y[i] = r;"), gate=BY_POISON,
              quick=True),
        wrong("gated_silu", kind, "all", edit(STORE, "if (r != r) y[i] = r;"), gate=BY_POISON),
        wrong("diagonal_matmul", kind, "all_but_the_first_row", edit(STORE, "if (row == 0) y[i] = r;"), gate=BY_POISON),
        wrong("row_logsumexp", kind, "odd_rows", edit("y[row] =", "if (row % 2 == 0) y[row] ="), gate=BY_POISON),
        wrong("cumulative_sum", kind, "second_half_of_rows", edit("out[c] =", "if (c < columns / 2) out[c] ="),
              gate=BY_POISON),
        wrong("row_argmax", kind, "odd_rows", edit("y[row] =", "if (row % 2 == 0) y[row] =")),
        wrong("row_sum_and_max", kind, "second_result",
              edit("top[row] = largest;", "if (largest != largest) top[row] = largest;"), gate=BY_POISON),
    ]


def taken_for_zero() -> list[Variant]:
    kind = "memory taken for zeroed"
    return [
        wrong("gelu_by_hand", kind, "added_to_the_output", edit(STORE, "y[i] += r;"), gate=BY_POISON),
        wrong("row_mean_square", kind, "added_to_the_output", edit("y[row] =", "y[row] +="), gate=BY_POISON),
        wrong("row_mean_square", kind, "added_atomically",
              edit("y[row] = (float)(sum / columns);", "atomicAdd(&y[row], (float)(sum / columns));"), gate=BY_POISON),
        wrong("linear_row_sum", kind, "added_to_a_workspace", edit("of_column[c] = sum;", "of_column[c] += sum;"),
              gate=BY_POISON),
        wrong("mse_loss", kind, "added_to_a_workspace", edit("partial[row] =", "partial[row] +="), gate=BY_POISON),
        wrong("row_abs_max", kind, "largest_so_far", edit("float top = 0.0f;", "float top = y[row];"),
              edit("fmaxf(top, fabsf(in[c]))", "fabsf(in[c]) > top ? fabsf(in[c]) : top"), gate=BY_POISON),
        wrong("relu_of_uniform", kind, "zeros_left_as_they_are", edit("r = v > 0.0f ? v : 0.0f", "r = v - 0.5f"),
              edit(STORE, "if (r > 0.0f) y[i] = v;"), gate=BY_POISON),
    ]


# Workspaces that are read as if an earlier call had written them.
def leftovers() -> list[Variant]:
    kind = "leftovers of earlier calls"

    def workspace(p: Program) -> None:
        p.head["steps"].insert(0, {"alloc": "kept", "dtype": "float32", "shape": list(p.task.tensor("x").shape)})
        p.step("launch", "k")["args"].append(argument("out kept"))

    def keeping(statements: str) -> tuple:
        return with_head(workspace), edit("int n)", "int n, float* kept)"), edit(STORE, statements)
    return [
        wrong("gelu_by_hand", kind, "cached_answers", *keeping("y[i] = kept[i];"), gate=BY_POISON),
        wrong("root_of_normal", kind, "call_counter", *keeping("if (i == 0) kept[0] += 1.0f;\n    y[i] = r + kept[1];"),
              gate=BY_POISON),
        wrong("relu_of_uniform", kind, "running_mean",
              *keeping("kept[i] = 0.5f * kept[i] + 0.5f * r;\n    y[i] = kept[i];"), gate=BY_POISON),
        wrong("gelu_by_hand", kind, "bits_of_what_was_there",
              store("r + 0.01f * (__float_as_uint(y[i]) & 7u)")),
        wrong("hard_swish_chain", kind, "bits_of_what_was_there",
              store("r + 0.01f * (__float_as_uint(y[i]) & 15u)")),
    ]


def addresses() -> list[Variant]:
    kind = "depends on addresses"
    of_row = LAST_BIT.replace("y + i", "out + c")
    normed = "(in[c] - middle) * scale * weight[c] + bias[c]"

    def by(pointer: str, shift: int) -> str:
        return f"(float)((unsigned)((unsigned long long){pointer} >> {shift}) * 2654435761u >> 24)"
    return [
        wrong("gelu_by_hand", kind, "of_the_output", store(f"r + 0.01f * {by('y', 8)}")),
        wrong("row_mean_square", kind, "of_the_output",
              edit("(float)(sum / columns)", f"(float)(sum / columns) + {by('y', 8)}")),
        wrong("hard_swish_chain", kind, "of_an_input", store(f"r + 0.01f * {by('x', 12)}")),
        # Only the last bit differs from call to call. On a GPU, where the order of sums may vary, this is accepted.
        wrong("gelu_by_hand", kind, "last_bit_by_the_output", store(LAST_BIT), outcome="inconsistent", gate="A/B/A",
              devices=CPU, quick=True),
        wrong("layer_norm", kind, "last_bit_by_the_output",
              edit(f"out[c] = {normed};", f"{{\n      const float r = {normed};\n      out[c] = {of_row};\n    }}"),
              outcome="inconsistent", gate="A/B/A", devices=CPU),
    ]


def race(result: str) -> tuple:
    """One thread per element; all threads of a row store to the same place."""
    def elements(p: Program) -> None:
        x = p.task.tensor("x")
        p.source = f"""__global__ void k(const float* x, float* y, int n, int columns) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i / columns] = {result};
}}
"""
        p.head["steps"].pop()
        p.launch("k", x.elements, ["in x", "out y", f"i32 {x.elements}", f"i32 {x.columns}"])
    return (with_head(elements),)


def races() -> list[Variant]:
    kind = "the last writer wins"
    return [
        wrong("row_mean_square", kind, "squares", *race("x[i] * x[i]")),
        wrong("row_abs_max", kind, "magnitudes", *race("0.5f * fabsf(x[i]) / 127.0f")),
        wrong("row_logsumexp", kind, "elements", *race("x[i]")),
    ]


# On a GPU the memory close after an input is mapped, so only far reads are faults there.
def reads_out_of_bounds() -> list[Variant]:
    kind = "reads out of bounds"
    return [
        wrong("gelu_by_hand", kind, "one_past_the_end", edit("v = x[i]", "v = x[i] + 0.0f * x[i + 1]"),
              outcome="out_of_bounds", devices=CPU, quick=True),
        wrong("gated_silu", kind, "before_the_start", edit("g = gate[i]", "g = gate[i] + 0.0f * gate[i - 4096]"),
              outcome="out_of_bounds", devices=CPU),
        wrong("softmax", kind, "one_column_more",
              edit("float top = in[0];", "float top = fmaxf(in[0], 0.0f * in[columns]);"),
              outcome="out_of_bounds", devices=CPU),
        wrong("hard_swish_chain", kind, "far_away", edit("+ residual[i]", f"+ residual[i + {FAR}]"),
              outcome="out_of_bounds"),
        wrong("row_abs_max", kind, "far_away", edit("fabsf(in[c])", f"fabsf(in[c + {FAR}])"), outcome="out_of_bounds"),
        wrong("bias_relu_twice", kind, "weight_far_away", edit("bias[i % columns]", f"bias[i % columns + {FAR}]"),
              outcome="out_of_bounds"),
        wrong("cross_entropy", kind, "label_far_away", edit("in[label[row]]", f"in[label[row] + {FAR}]"),
              outcome="out_of_bounds"),
    ]


def writes_out_of_bounds() -> list[Variant]:
    kind = "writes out of bounds"

    def out(task: str, label: str, *changes, devices: tuple[str, ...] = DEVICES, quick: bool = False) -> Variant:
        return wrong(task, kind, label, *changes, outcome="out_of_bounds", devices=devices, quick=quick)

    def one_block_more(p: Program) -> None:
        p.step("launch", "k")["grid"][0] += 1
    return [
        out("gelu_by_hand", "one_past_the_end", after(STORE, "if (i == 0) y[n] = 1.0f;"), quick=True),
        out("gated_silu", "before_the_start", after(STORE, "if (i == 0) y[-1] = 1.0f;")),
        out("row_mean_square", "one_row_more", with_head(one_block_more), edit("row < rows", "row <= rows"),
            edit("x + (long long)row * columns", "x + (long long)(row % rows) * columns")),
        out("mse_loss", "past_a_workspace",
            after("partial[row] = sum / columns;", "if (row == 0) partial[rows] = 1.0;")),
        out("linear_row_sum", "past_a_workspace",
            after("of_column[c] = sum;", "if (c == 0) of_column[columns] = 1.0;")),
        out("hard_swish_chain", "far_away", edit(STORE, f"y[i + {FAR}] = r;")),
        out("diagonal_matmul", "behind_the_guard", after(STORE, "if (i == 0) y[n + 4096] = 1.0f;"), devices=CPU),
        out("cumulative_sum", "one_column_more", after("out[c] = (float)sum;", "  out[c + 1] = 0.0f;")),
    ]


def writes_inputs() -> list[Variant]:
    kind = "writes an input"

    def through(task: str, label: str, *changes, quick: bool = False) -> Variant:
        return wrong(task, kind, label, *changes, outcome="wrote_input", cuda=("wrote_input", "out_of_bounds"),
                     quick=quick)
    exp = "expf(in[c] - top)"
    return [
        through("gelu_by_hand", "result", after(STORE, "const_cast<float*>(x)[i] = r;"), quick=True),
        through("softmax", "scratch", edit(f"sum += {exp};", f"sum += const_cast<float*>(in)[c] = {exp};"),
                edit(f"out[c] = {exp} * scale;", "out[c] = in[c] * scale;")),
        through("bias_relu_twice", "weight", after(STORE, "if (i == 0) const_cast<float*>(bias)[0] = 0.0f;")),
        through("cross_entropy", "labels",
                edit("partial[row] =", "const_cast<long long*>(label)[row] = 0;\n    partial[row] =")),
        through("hard_swish_chain", "last_element",
                after(STORE, "if (i == n - 1) const_cast<float*>(residual)[i] = 1.0f;")),
    ]


def endless() -> list[Variant]:
    kind = "endless loop"
    first = "double sum = 0.0;\n  for (int row"
    wait = "volatile float* done = loss;\n  *done = 0.0f;\n  while (*done < 1.0f) *done = 0.0f;\n  "
    return [
        wrong("gelu_by_hand", kind, "waits_for_a_value",
              edit(STORE, "volatile float* at = y + i;\n    while (*at != 12345.678f) *at = r;"), outcome="hang"),
        wrong("row_mean_square", kind, "column_that_never_comes", before("double sum = 0.0;", "volatile int step = 0;"),
              edit("c < columns; ++c", "c < columns; c += step"), outcome="hang"),
        wrong("mse_loss", kind, "waits_for_other_rows", edit(first, wait + first), outcome="hang"),
    ]


def traps() -> list[Variant]:
    kind = "trap"
    deep = """__device__ __noinline__ float deep(const float* x, int depth) {
  volatile float local[1024];
  for (int i = 0; i < 1024; ++i) local[i] = x[i] + depth;
  return depth < 1000000 ? deep(x, depth + 1) + local[depth & 1023] : local[0];
}"""
    null = "*(volatile float*)(n < 0 ? 4ull : 0ull) = 1.0f;"
    return [
        wrong("gelu_by_hand", kind, "always", after(STORE, "if (v > -1000.0f) __trap();"), outcome="crash", quick=True),
        wrong("gated_silu", kind, "for_large_values", after(STORE, "if (g > 9.0f) __trap();"), outcome="crash"),
        wrong("hard_swish_chain", kind, "null_pointer", after(STORE, null), outcome="out_of_bounds",
              cuda=("out_of_bounds", "crash")),
        wrong("diagonal_matmul", kind, "division_by_zero", store("r + (float)(i / (rows / (n + 1)))"),
              outcome="crash", cuda="wrong_answer"),
        wrong("root_of_normal", kind, "stack_overflow", add_source(deep), store("r + 0.0f * deep(x, 0)"),
              outcome="crash", devices=CPU),
    ]


HUGE = 1 << 34  # elements of float32: 64 GiB


def over_the_limit() -> list[Variant]:
    kind = "memory over the limit"

    def one(p: Program) -> None:
        p.head["steps"].insert(0, {"alloc": "huge", "dtype": "float32", "shape": [HUGE]})

    def many(p: Program) -> None:
        for k in range(16):
            p.head["steps"].insert(0, {"alloc": f"part{k}", "dtype": "float32", "shape": [HUGE // 16]})

    def repeated(p: Program) -> None:
        x = p.task.tensor("x")
        p.aten("repeat", "huge", self="x", repeats=[HUGE // x.elements, 1])
    return [
        wrong("gelu_by_hand", kind, "one_tensor", with_head(one), outcome="out_of_memory"),
        wrong("relu_of_uniform", kind, "many_tensors", with_head(many), outcome="out_of_memory"),
        wrong("root_of_normal", kind, "repeated_input", with_head(repeated), outcome="out_of_memory"),
        wrong("huber_loss", kind, "one_tensor", with_head(one), outcome="out_of_memory", quick=True),
    ]


def aliases() -> list[Variant]:
    kind = "output that is an input"

    def view(op: str, **args) -> tuple:
        def change(p: Program) -> None:
            p.head["steps"], p.source = [], ""
            p.aten(op, "y", self="x", **args)
        return (with_head(change),)
    return [
        wrong("relu_of_uniform", kind, "named", with_head(lambda p: p.head["steps"].clear()),
              set_head("outputs", ["x"]), outcome="invalid"),
        wrong("softmax", kind, "view", *view("alias"), outcome="invalid"),
        wrong("turned_relu", kind, "turned_view", *view("t"), outcome="invalid"),
        wrong("relu_of_uniform", kind, "contiguous", *view("contiguous"), outcome="invalid", quick=True),
    ]


def variants() -> list[Variant]:
    return (unwritten() + taken_for_zero() + leftovers() + addresses() + races() + reads_out_of_bounds()
            + writes_out_of_bounds() + writes_inputs() + endless() + traps() + over_the_limit() + aliases())
