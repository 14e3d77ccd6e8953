"""Programs with another formula than the task's, or with lower precision."""

from __future__ import annotations

from typing import Any

from corpus import Variant, wrong
from programs import Change, Program, add_source, aten_argument, edit, store, swap_arguments, with_head

BRAIN = """__device__ float brain(float v) {
  return __uint_as_float((__float_as_uint(v) + 0x8000u) & 0xffff0000u);
}"""
CUT = """__device__ float cut(float v) {
  return __uint_as_float(__float_as_uint(v) & 0xffff0000u);
}"""
TENSOR = """__device__ float tensor(float v) {
  return __uint_as_float((__float_as_uint(v) + 0x1000u) & 0xffffe000u);
}"""


def wrong_constants() -> list[Variant]:
    kind = "wrong constant"
    return [
        wrong("gelu_by_hand", kind, "cube", edit("0.044715f", "0.05f"), quick=True),
        wrong("gelu_by_hand", kind, "scale", edit("0.7978845608f", "0.79f")),
        wrong("hard_swish_chain", kind, "divisor", edit("/ 6.0f", "/ 5.9f")),
        wrong("hard_swish_chain", kind, "shift", edit("v + 3.0f", "v + 2.9f")),
        wrong("affine_clamp_mish", kind, "lower_bound", edit("-3.0f", "-2.5f")),
        wrong("bias_relu_twice", kind, "scale", edit("0.125f", "0.126f")),
        wrong("matmul_epilogue", kind, "slope", edit("0.1f", "0.01f")),
        wrong("conv2d_epilogue", kind, "scale", edit("* 0.5f", "* 0.51f")),
        wrong("scaled_masked_softmax", kind, "scale", edit("0.125f", "0.126f", 4)),
        wrong("attention", kind, "scale", edit("0.125f", "0.13f", 4)),
        wrong("row_abs_max", kind, "divisor", edit("127.0f", "128.0f")),
        wrong("huber_loss", kind, "half", edit("0.5f * difference", "0.6f * difference")),
        wrong("pool_sigmoid", kind, "shift", edit("- 1.0f", "- 1.1f")),
        wrong("layer_norm", kind, "epsilon", edit("1e-5", "1e-1")),
        wrong("linear_row_sum", kind, "scale", edit("sum * 0.5", "sum * 0.52")),
        wrong("positive_mask", kind, "threshold", edit("> 0.5f", "> 0.51f")),
    ]


def slightly_off() -> list[Variant]:
    kind = "slightly off"
    gate = "3 error"
    return [
        wrong("row_logsumexp", kind, "factor", edit("(float)log(sum) + top", "((float)log(sum) + top) * 1.00003f"),
              gate=gate),
        wrong("row_mean_square", kind, "factor", edit("(float)(sum / columns)", "(float)(sum / columns * 1.00003)"),
              gate=gate),
        wrong("mse_loss", kind, "factor", edit("(float)(sum / rows)", "(float)(sum / rows * 1.00003)"), gate=gate),
        wrong("huber_loss", kind, "factor", edit("(float)(sum / rows)", "(float)(sum / rows * 1.00003)"), gate=gate,
              quick=True),
        wrong("gelu_by_hand", kind, "factor", store("r * 1.00003f"), gate=gate),
        wrong("layer_norm", kind, "factor", edit("* scale * weight[c]", "* (scale * 1.00003f) * weight[c]"), gate=gate),
        wrong("gated_silu", kind, "factor", store("r * 0.99997f"), gate=gate),
    ]


def wrong_signs() -> list[Variant]:
    kind = "wrong sign"
    return [
        wrong("gelu_by_hand", kind, "cube", edit("+ 0.044715f", "- 0.044715f")),
        wrong("hard_swish_chain", kind, "residual", edit("+ residual[i]", "- residual[i]")),
        wrong("affine_clamp_mish", kind, "shift", edit("+ shift[c]", "- shift[c]")),
        wrong("batch_norm_relu", kind, "mean", edit("- running_mean[c]", "+ running_mean[c]")),
        wrong("layer_norm", kind, "mean", edit("(in[c] - middle)", "(in[c] + middle)")),
        wrong("matmul_epilogue", kind, "residual", edit("+ residual[i]", "- residual[i]")),
        wrong("conv2d_epilogue", kind, "bias", edit("+ bias[c]", "- bias[c]")),
        wrong("linear_gelu", kind, "error_function", edit("1.0f + erff", "1.0f - erff")),
        wrong("cross_entropy", kind, "score", edit("- in[label[row]]", "+ in[label[row]]")),
        wrong("row_logsumexp", kind, "maximum", edit("(float)log(sum) + top", "(float)log(sum) - top")),
        wrong("kl_divergence", kind, "difference", edit("(log_p - log_q)", "(log_q - log_p)")),
        wrong("diagonal_matmul", kind, "result", store("-r")),
    ]


# Rows with a variance that is small relative to the epsilon, as in draws around one.
def epsilons() -> list[Variant]:
    kind = "missing epsilon"
    outside = edit("1.0 / sqrt(squares / columns + 1e-5)", "1.0 / (sqrt(squares / columns) + 1e-6)")
    missing = edit("squares / columns + 1e-5", "squares / columns")
    tasks = ("layer_norm", "group_norm_silu", "residual_layer_norm")
    return ([wrong(task, kind, "no_epsilon", missing, gate="5 draws") for task in tasks]
            + [wrong(task, kind, "epsilon_beside_the_root", outside, gate="5 draws") for task in tasks])


def missing_operators() -> list[Variant]:
    kind = "missing operator"
    return [
        wrong("affine_clamp_mish", kind, "clamp", edit("fminf(fmaxf(v, -3.0f), 3.0f)", "v")),
        wrong("affine_clamp_mish", kind, "mish", edit("v * tanhf(log1pf(expf(v)))", "v")),
        wrong("bias_relu_twice", kind, "relu", edit("fmaxf(v, 0.0f)", "v")),
        wrong("batch_norm_relu", kind, "relu", edit("fmaxf(v, 0.0f)", "v")),
        wrong("hard_swish_chain", kind, "residual", edit(" + residual[i]", "")),
        wrong("pool_sigmoid", kind, "sigmoid", edit("1.0f / (1.0f + expf(-v))", "v")),
        wrong("rms_norm", kind, "weight", edit(" * weight[c]", "")),
        wrong("layer_norm", kind, "bias", edit(" + bias[c]", "")),
        wrong("l2_normalize", kind, "root", edit("(float)sqrt(sum)", "(float)sum")),
        wrong("row_abs_max", kind, "magnitude", edit("fabsf(in[c])", "in[c]")),
        wrong("row_logsumexp", kind, "logarithm", edit("(float)log(sum)", "(float)sum")),
        wrong("row_mean_square", kind, "division", edit("sum / columns", "sum")),
        wrong("softmax", kind, "normalisation", edit(" * scale", "")),
        wrong("group_norm_silu", kind, "silu", edit("v / (1.0f + expf(-v))", "v")),
        wrong("matmul_epilogue", kind, "tanh", edit("tanhf(", "(")),
        wrong("linear_gelu", kind, "gelu", edit("0.5f * v * (1.0f + erff(v * 0.70710678f))", "v")),
        wrong("mlp", kind, "relu", edit("fmaxf(h[i], 0.0f)", "h[i]")),
        wrong("cross_entropy", kind, "mean", edit("(float)(sum / rows)", "(float)sum")),
        wrong("linear_row_sum", kind, "bias", edit("double sum = *of_bias;", "double sum = 0.0;")),
        wrong("attention", kind, "scale", edit(" * 0.125f", "", 4)),
    ]


def swapped_operands() -> list[Variant]:
    kind = "swapped operands"

    def swapped_mm(p: Program) -> None:
        p.step("aten", "aten::mm")["args"] = {"self": "b", "mat2": "a"}

    def swapped_scores(p: Program) -> None:
        p.step("aten", "aten::transpose.int")["args"]["self"] = "q"
        p.step("aten", "aten::bmm")["args"] = {"self": "k", "mat2": "kt"}
    return [
        wrong("gated_silu", kind, "gate_and_value", swap_arguments("k", 0, 1)),
        wrong("hard_swish_chain", kind, "input_and_residual", swap_arguments("k", 0, 1)),
        wrong("affine_clamp_mish", kind, "scale_and_shift", swap_arguments("k", 1, 2)),
        wrong("batch_norm_relu", kind, "weight_and_bias", swap_arguments("k", 1, 2)),
        wrong("batch_norm_relu", kind, "mean_and_variance", swap_arguments("k", 3, 4)),
        wrong("layer_norm", kind, "weight_and_bias", swap_arguments("k", 1, 2)),
        wrong("l2_normalize", kind, "dividend_and_divisor", edit("in[c] / norm", "norm / in[c]")),
        wrong("triangular_matmul", kind, "factors", with_head(swapped_mm)),
        wrong("attention", kind, "queries_and_keys", with_head(swapped_scores)),
        wrong("row_sum_and_max", kind, "results", swap_arguments("k", 1, 2)),
    ]


def lower_precision() -> list[Variant]:
    kind = "lower precision"
    brain, tensor = add_source(BRAIN), add_source(TENSOR)
    square = "sum += (double)in[c] * in[c];"
    normed = "(in[c] - middle) * scale * weight[c] + bias[c]"
    result = "expf(in[c] - top) * scale"
    tf32 = [with_head(lambda p, op=op: p.step("aten", op).__setitem__("precision", "tf32"))
            for op in ("aten::linear", "aten::mm")]
    return [
        wrong("gelu_by_hand", kind, "bfloat16_input", brain, edit("v = x[i]", "v = brain(x[i])"), quick=True),
        wrong("gelu_by_hand", kind, "tf32_input", tensor, edit("v = x[i]", "v = tensor(x[i])")),
        wrong("gated_silu", kind, "bfloat16_output", brain, store("brain(r)")),
        wrong("diagonal_matmul", kind, "tf32_operand", tensor, edit("* b[i]", "* tensor(b[i])")),
        wrong("diagonal_matmul", kind, "bfloat16_operand", brain, edit("* b[i]", "* brain(b[i])")),
        wrong("layer_norm", kind, "bfloat16_output", brain,
              edit(normed, f"brain({normed})")),
        wrong("row_mean_square", kind, "bfloat16_accumulator", brain,
              edit(square, "sum = brain((float)sum + in[c] * in[c]);")),
        wrong("row_mean_square", kind, "tf32_accumulator", tensor,
              edit(square, "sum = tensor((float)sum + in[c] * in[c]);")),
        wrong("linear_row_sum", kind, "bfloat16_operand", brain,
              edit("in[c] * of_column[c]", "brain(in[c]) * of_column[c]")),
        wrong("softmax", kind, "tf32_output", tensor,
              edit(result, f"tensor({result})"), gate="3 error"),
        wrong("cumulative_sum", kind, "bfloat16_accumulator", brain,
              edit("sum += in[c];", "sum = brain((float)sum + in[c]);")),
        wrong("mse_loss", kind, "squares_cut_to_bfloat16", add_source(CUT),
              edit("(double)difference * difference", "cut(difference * difference)")),
        wrong("rms_norm", kind, "bfloat16_scale", brain, edit("in[c] * scale", "in[c] * brain(scale)")),
        wrong("hard_swish_chain", kind, "bfloat16_gate", brain, edit("v * (gate / 6.0f)", "v * brain(gate / 6.0f)")),
        wrong("half_relu", kind, "fewer_bits", edit("y[i] = r;", "y[i] = r & 0xff80;")),
        wrong("linear_gelu", kind, "tf32_product", tf32[0], devices=("cuda",)),
        wrong("triangular_matmul", kind, "tf32_product", tf32[1], devices=("cuda",)),
    ]


def of_the_library(op: str, **args: Any) -> Change:
    """Replaces the program by one call of the library."""
    def change(p: Program) -> None:
        p.head["steps"], p.source = [], ""
        p.aten(op, p.task.output, **args)
    return change


def other_operators() -> list[Variant]:
    kind = "another operator of the library"

    def tanh_gelu(p: Program) -> None:
        p.head["steps"] = [p.step("aten", "aten::linear")]
        p.source = ""
        p.aten("gelu", "y", self="h", approximate="tanh")
    return [
        wrong("softmax", kind, "over_columns", of_the_library("softmax.int", self="x", dim=0)),
        wrong("softmax", kind, "logarithms", of_the_library("log_softmax.int", self="x", dim=1)),
        wrong("cumulative_sum", kind, "over_columns", of_the_library("cumsum", self="x", dim=0)),
        wrong("cumulative_sum", kind, "products", of_the_library("cumprod", self="x", dim=1)),
        wrong("mse_loss", kind, "absolute", of_the_library("l1_loss", self="prediction", target="target")),
        wrong("gelu_by_hand", kind, "silu", of_the_library("silu", self="x")),
        wrong("cross_entropy", kind, "sum",
              of_the_library("cross_entropy_loss", self="scores", target="label", reduction=2)),
        wrong("row_mean_square", kind, "mean", of_the_library("mean.dim", self="x", dim=[1])),
        wrong("linear_gelu", kind, "tanh_approximation", with_head(tanh_gelu)),
        wrong("diagonal_matmul", kind, "sum_of_operands",
              of_the_library("addmm", self="b", mat1="a", mat2="b")),
        wrong("conv2d_epilogue", kind, "dilated", aten_argument("conv2d", "dilation", [2, 2]),
              aten_argument("conv2d", "padding", [2, 2])),
    ]


def variants() -> list[Variant]:
    return (wrong_constants() + slightly_off() + wrong_signs() + epsilons() + missing_operators() + swapped_operands()
            + lower_precision() + other_operators())
