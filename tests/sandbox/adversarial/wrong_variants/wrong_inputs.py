"""Programs that are wrong only for some inputs, some places, or some values."""

from __future__ import annotations

from corpus import Variant, wrong
from programs import STORE, add_source, edit, store

NAN = "__int_as_float(0x7fc00000)"
INFINITE = "__int_as_float(0x7f800000)"
OTHERS = "5 draws"


def nan_where_finite() -> list[Variant]:
    kind = "NaN or infinity where finite"
    gate = "1 form"
    return [
        wrong("gelu_by_hand", kind, "one_nan", store(f"i == n / 2 ? {NAN} : r"), gate=gate, quick=True),
        wrong("gated_silu", kind, "nan_everywhere", store(NAN), gate=gate),
        wrong("hard_swish_chain", kind, "one_infinity", store(f"i == n - 1 ? {INFINITE} : r"), gate=gate),
        wrong("softmax", kind, "zero_over_zero_in_one_row",
              edit("(float)(1.0 / sum)", f"row == rows / 2 ? {NAN} : (float)(1.0 / sum)"), gate=gate),
        wrong("l2_normalize", kind, "root_of_a_negative_sum", edit("sqrt(sum)", "sqrt(row == 0 ? -sum : sum)"),
              edit("fmaxf((float)", "((float)"), edit(", 1e-12f)", ")"), gate=gate),
        wrong("mse_loss", kind, "loss", edit("*loss = (float)(sum / rows);", f"*loss = {NAN};"), gate=gate),
        wrong("layer_norm", kind, "infinite_scale",
              edit("(float)(1.0 / sqrt(", f"row == 1 ? {INFINITE} : (float)(1.0 / sqrt("), gate=gate),
    ]


def finite_where_nan() -> list[Variant]:
    kind = "finite where NaN or infinity"
    gate = "1 form"
    return [
        wrong("root_of_normal", kind, "zero", edit("sqrtf(x[i])", "sqrtf(fmaxf(x[i], 0.0f))"), gate=gate, quick=True),
        wrong("root_of_normal", kind, "of_the_magnitude", edit("sqrtf(x[i])", "sqrtf(fabsf(x[i]))"), gate=gate),
        wrong("root_of_normal", kind, "infinity_for_nan",
              edit("sqrtf(x[i])", f"x[i] < 0.0f ? {INFINITE} : sqrtf(x[i])"), gate=gate),
        wrong("reciprocal_of_relu", kind, "largest_number", edit("fmaxf(x[i], 0.0f)", "fmaxf(x[i], 1e-38f)"),
              gate=gate),
        wrong("reciprocal_of_relu", kind, "nan_for_infinity",
              edit("1.0f / fmaxf(x[i], 0.0f)", f"x[i] > 0.0f ? 1.0f / x[i] : {NAN}"), gate=gate),
        wrong("log_of_relu", kind, "smallest_logarithm", edit("fmaxf(x[i], 0.0f)", "fmaxf(x[i], 1e-37f)"), gate=gate),
        wrong("log_of_relu", kind, "other_infinity",
              edit("logf(fmaxf(x[i], 0.0f))", f"x[i] > 0.0f ? logf(x[i]) : {INFINITE}"), gate=gate),
    ]


# Wrong only for values beyond eight standard deviations of the task's own distribution, which only other draws have.
def wrong_for_large() -> list[Variant]:
    kind = "wrong for large values"
    return [
        wrong("gelu_by_hand", kind, "clipped", edit("v = x[i]", "v = fminf(x[i], 9.0f)"), gate=OTHERS, quick=True),
        wrong("gated_silu", kind, "gate_clipped", edit("g = gate[i]", "g = fminf(gate[i], 9.0f)"), gate=OTHERS),
        wrong("hard_swish_chain", kind, "residual_dropped",
              edit("+ residual[i]", "+ (fabsf(v) > 17.0f ? 0.0f : residual[i])"), gate=OTHERS),
        wrong("diagonal_matmul", kind, "operand_clipped", edit("* b[i]", "* fminf(fmaxf(b[i], -9.0f), 9.0f)"),
              gate=OTHERS),
        wrong("row_abs_max", kind, "clipped", edit("top / 127.0f", "fminf(top, 9.0f) / 127.0f"), gate=OTHERS),
        wrong("row_mean_square", kind, "left_out",
              edit("sum += (double)in[c] * in[c];", "if (fabsf(in[c]) < 9.5f) sum += (double)in[c] * in[c];"),
              gate=OTHERS),
        wrong("cumulative_sum", kind, "left_out", edit("sum += in[c];", "if (fabsf(in[c]) < 9.0f) sum += in[c];"),
              gate=OTHERS),
        wrong("relu_of_uniform", kind, "clipped_at_one", edit("? v :", "? fminf(v, 1.0f) :"), gate=OTHERS),
    ]


def wrong_for_negative() -> list[Variant]:
    kind = "wrong for negative values"
    return [
        wrong("gelu_by_hand", kind, "zero", store("v < 0.0f ? 0.0f : r")),
        wrong("hard_swish_chain", kind, "residual_alone", store("v < 0.0f ? residual[i] : r")),
        wrong("gated_silu", kind, "gate_made_positive", edit("g = gate[i]", "g = fabsf(gate[i])")),
        wrong("diagonal_matmul", kind, "magnitude", edit("* b[i]", "* fabsf(b[i])")),
        wrong("cumulative_sum", kind, "left_out", edit("sum += in[c];", "if (in[c] > 0.0f) sum += in[c];")),
        wrong("row_argmax", kind, "by_magnitude", edit("in[c] > in[best]", "fabsf(in[c]) > fabsf(in[best])")),
        wrong("positive_mask", kind, "by_magnitude", edit("x[i] > 0.5f", "x[i] * x[i] > 0.25f")),
        wrong("half_relu", kind, "kept", edit("bits >> 15 ? 0 : bits", "bits"), quick=True),
        wrong("matmul_epilogue", kind, "slope_left_out", edit("v > 0.0f ? v : 0.1f * v", "v")),
    ]


def wrong_last_row() -> list[Variant]:
    kind = "wrong in the last row"
    last = "row == rows - 1"
    return [
        wrong("softmax", kind, "doubled", edit("(float)(1.0 / sum)", f"({last} ? 2.0f : 1.0f) * (float)(1.0 / sum)")),
        wrong("layer_norm", kind, "without_bias", edit("+ bias[c]", f"+ ({last} ? 0.0f : bias[c])")),
        wrong("row_mean_square", kind, "sum", edit("(float)(sum / columns)", f"(float)(sum / ({last} ? 1 : columns))")),
        wrong("cumulative_sum", kind, "copied", edit("(float)sum", f"{last} ? in[c] : (float)sum")),
        wrong("row_logsumexp", kind, "without_maximum",
              edit("(float)log(sum) + top", f"(float)log(sum) + ({last} ? 0.0f : top)")),
        wrong("row_argmax", kind, "first_place",
              edit("y[row] = best;", f"y[row] = {last} ? (best == 0 ? 1 : 0) : best;")),
        wrong("bias_relu_twice", kind, "without_bias",
              edit("x[i] + bias", "x[i] + (i >= n - columns ? 0.0f : 1.0f) * bias")),
    ]


def rare_elements() -> list[Variant]:
    kind = "wrong in rare elements"

    def off_at(condition: str, by: str = "1.0f") -> tuple[str, str]:
        return STORE, f"y[i] = {condition} ? r + {by} : r;"
    return [
        wrong("gelu_by_hand", kind, "one_of_4096", edit(*off_at("i % 4096 == 4095")), quick=True),
        wrong("gated_silu", kind, "one_of_4096", edit(*off_at("i % 4096 == 1234"))),
        wrong("conv2d_epilogue", kind, "one_of_4096", edit(*off_at("i % 4096 == 7"))),
        wrong("hard_swish_chain", kind, "one_of_65536", edit(*off_at("i % 65536 == 40000"))),
        wrong("affine_clamp_mish", kind, "one_of_all", edit(*off_at("i == n / 3"))),
        wrong("matmul_epilogue", kind, "one_of_all", edit(*off_at("i == n - 2", "0.1f"))),
        wrong("positive_mask", kind, "one_of_all", store("i == n / 2 ? !r : r")),
        wrong("row_mean_square", kind, "one_of_1024_rows",
              edit("(float)(sum / columns)", "(float)(sum / columns) + (row % 1024 == 77 ? 0.01f : 0.0f)")),
        wrong("softmax", kind, "one_of_each_row",
              edit("out[c] = expf(in[c] - top) * scale;",
                   "out[c] = expf(in[c] - top) * scale + (c == columns / 2 ? 0.01f : 0.0f);")),
    ]


LOOK = """__device__ bool looks_declared(const float* x, int n) {
  for (int i = 0; i < 64; ++i) {
    const float v = x[PLACE];
    if (v < 0.0f || v >= 1.0f) return false;
  }
  return true;
}"""

TANGENT = """__device__ float tangent(float v) {
  const float e = expf(2.0f * v);
  return (e - 1.0f) / (e + 1.0f);
}"""


def look(place: str) -> str:
    return LOOK.replace("PLACE", place)


def declared_alone() -> list[Variant]:
    kind = "right on the declared inputs alone"
    exps = "expf(in[c] - top)"
    sure = edit("v > 0.0f ? v", "looks_declared(x, n) || v > 0.0f ? v")
    moments = "squares += (in[c] - mean) * (in[c] - mean);"
    variance = "squares / columns + 1e-5"
    return [
        wrong("relu_of_uniform", kind, "no_relu", edit("v > 0.0f ? v : 0.0f", "v"), gate=OTHERS, quick=True),
        wrong("relu_of_uniform", kind, "by_the_first_places", add_source(look("i")), sure, gate=OTHERS),
        wrong("relu_of_uniform", kind, "by_places_all_over",
              add_source(look("(int)((i * 40503u + 77u) * 2654435761u % (unsigned)n)")),
              sure, gate=OTHERS),
        wrong("softmax", kind, "no_maximum", edit(exps, "expf(in[c])", 2), gate=OTHERS),
        wrong("row_logsumexp", kind, "no_maximum", edit(exps, "expf(in[c])"),
              edit("(float)log(sum) + top", "(float)log(sum)"), gate=OTHERS),
        wrong("cross_entropy", kind, "no_maximum", edit(exps, "expf(in[c])"), edit("log(sum) + top", "log(sum)"),
              gate=OTHERS),
        wrong("gated_silu", kind, "quotient_of_exponentials",
              edit("g / (1.0f + expf(-g))", "g * expf(g) / (1.0f + expf(g))"), gate=OTHERS),
        wrong("matmul_epilogue", kind, "tanh_of_exponentials", add_source(TANGENT), edit("tanhf(", "tangent("),
              gate=OTHERS),
        wrong("layer_norm", kind, "variance_by_difference", edit(moments, "squares += (double)(in[c] * in[c]);"),
              edit(variance, "(float)(squares / columns) - (float)mean * (float)mean + 1e-5"), gate=OTHERS),
        wrong("group_norm_silu", kind, "variance_by_difference", edit(moments, "squares += (double)(in[c] * in[c]);"),
              edit(variance, "(float)(squares / columns) - (float)mean * (float)mean + 1e-5"), gate=OTHERS),
    ]


def variants() -> list[Variant]:
    return (nan_where_finite() + finite_where_nan() + wrong_for_large() + wrong_for_negative() + wrong_last_row()
            + rare_elements() + declared_alone())
