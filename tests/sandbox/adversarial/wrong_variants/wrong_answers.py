"""Programs that do only a part of the work, or work on the wrong elements."""

from __future__ import annotations

from corpus import BY_POISON, Variant, wrong
from programs import edit, grid, store

SUM_OF_EXPS = "for (int c = 0; c < columns; ++c) sum += expf(in[c] - top);"
SQUARES = "for (int c = 0; c < columns; ++c) sum += (double)in[c] * in[c];"
ROWS_OF_FINISH = "for (int row = 0; row < rows; ++row) sum += partial[row];"


def half(loop: str) -> tuple[str, str]:
    return loop, loop.replace("c < columns", "c < columns / 2")


def borders() -> list[Variant]:
    kind = "off by one at a border"
    return [
        wrong("gelu_by_hand", kind, "last_element", edit("i < n", "i < n - 1"), gate=BY_POISON, quick=True),
        wrong("gated_silu", kind, "last_element", edit("i < n", "i < n - 1"), gate=BY_POISON),
        wrong("hard_swish_chain", kind, "first_element", edit("i < n", "i < n && i > 0"), gate=BY_POISON),
        wrong("bias_relu_twice", kind, "last_column", edit("i < n", "i < n && i % columns != columns - 1"),
              gate=BY_POISON),
        wrong("softmax", kind, "last_row", edit("row < rows", "row < rows - 1"), gate=BY_POISON),
        wrong("row_abs_max", kind, "first_row", edit("row < rows", "row < rows && row > 0"), gate=BY_POISON),
        wrong("row_mean_square", kind, "last_column", edit("c < columns", "c < columns - 1")),
        wrong("layer_norm", kind, "first_column_of_the_mean",
              edit("for (int c = 0; c < columns; ++c) sum +=", "for (int c = 1; c < columns; ++c) sum +=")),
        wrong("cumulative_sum", kind, "one_behind",
              edit("sum += in[c];\n      out[c] = (float)sum;", "out[c] = (float)sum;\n      sum += in[c];")),
        wrong("triangular_matmul", kind, "without_the_diagonal", edit("row <= column", "row < column")),
        wrong("mse_loss", kind, "last_column", edit("c < columns", "c < columns - 1")),
        wrong("row_logsumexp", kind, "last_column_of_the_sum",
              edit(SUM_OF_EXPS, SUM_OF_EXPS.replace("columns;", "columns - 1;"))),
    ]


def grid_shares() -> list[Variant]:
    kind = "a share of the grid"
    shares = [("gelu_by_hand", 1, 2), ("affine_clamp_mish", 7, 8), ("softmax", 1, 2), ("mse_loss", 1, 2),
              ("linear_gelu", 3, 4), ("row_logsumexp", 15, 16), ("conv2d_epilogue", 1, 2), ("attention", 1, 2),
              ("row_argmax", 1, 2)]
    found = [wrong(task, kind, f"{n}_of_{of}", grid("k", n, of),
                   gate="2 close" if task == "row_argmax" else BY_POISON) for task, n, of in shares]
    return found + [
        wrong("batch_norm_relu", kind, "even_threads", edit("i < n", "i < n && i % 2 == 0"), gate=BY_POISON),
        wrong("diagonal_matmul", kind, "two_of_three_blocks", edit("i < n", "i < n && blockIdx.x % 3 != 2"),
              gate=BY_POISON),
        wrong("pool_sigmoid", kind, "all_but_block_seven", edit("i < n", "i < n && blockIdx.x != 7"), gate=BY_POISON),
    ]


def half_reductions() -> list[Variant]:
    kind = "half of a reduction"
    moments = "for (int c = 0; c < columns; ++c) sum += in[c];"
    return [
        wrong("softmax", kind, "half_sum", edit(*half(SUM_OF_EXPS))),
        wrong("softmax", kind, "half_sum_doubled", edit(SUM_OF_EXPS, half(SUM_OF_EXPS)[1].replace("+= ", "+= 2.0 * "))),
        wrong("attention", kind, "half_sum",
              edit(*half("for (int c = 0; c < columns; ++c) sum += expf(in[c] * 0.125f - top);"))),
        wrong("row_mean_square", kind, "half_sum", edit(*half(SQUARES))),
        wrong("row_mean_square", kind, "half_sum_doubled",
              edit(SQUARES, half(SQUARES)[1].replace("+= ", "+= 2.0 * "))),
        wrong("row_abs_max", kind, "half_maximum", edit("c < columns", "c < columns / 2")),
        wrong("row_logsumexp", kind, "half_sum", edit(*half(SUM_OF_EXPS))),
        wrong("layer_norm", kind, "half_mean", edit(moments, half(moments)[1])),
        wrong("group_norm_silu", kind, "half_variance",
              edit(*half("for (int c = 0; c < columns; ++c) squares += (in[c] - mean) * (in[c] - mean);"))),
        wrong("rms_norm", kind, "half_sum", edit(*half(SQUARES))),
        wrong("l2_normalize", kind, "half_sum", edit(*half(SQUARES))),
        wrong("cumulative_sum", kind, "two_halves",
              edit("sum += in[c];", "if (c == columns / 2) sum = 0.0;\n      sum += in[c];")),
        wrong("mse_loss", kind, "half_of_the_rows",
              edit(ROWS_OF_FINISH, ROWS_OF_FINISH.replace("< rows", "< rows / 2"))),
        wrong("huber_loss", kind, "half_of_each_row", edit("c < columns", "c < columns / 2"), quick=True),
        wrong("cross_entropy", kind, "half_of_the_classes", edit(*half(SUM_OF_EXPS))),
        wrong("linear_row_sum", kind, "half_of_the_inner_sum", edit("c < columns; ++c", "c < columns / 2; ++c")),
        wrong("row_argmax", kind, "half_of_each_row", edit("c < columns", "c < columns / 2")),
        wrong("row_sum_and_max", kind, "half_of_the_second_result",
              edit("for (int c = 1; c < columns; ++c) largest", "for (int c = 1; c < columns / 2; ++c) largest")),
    ]


def constants() -> list[Variant]:
    kind = "a constant"
    return [
        wrong("softmax", kind, "one_over_columns",
              edit("out[c] = expf(in[c] - top) * scale;", "out[c] = 1.0f / columns;")),
        wrong("gelu_by_hand", kind, "zeros", store("0.0f"), quick=True),
        wrong("diagonal_matmul", kind, "zeros", store("0.0f")),
        wrong("batch_norm_relu", kind, "zeros", store("0.0f")),
        wrong("row_mean_square", kind, "expected_value", edit("(float)(sum / columns)", "1.25f")),
        wrong("row_abs_max", kind, "usual_value", edit("top / 127.0f", "0.0255f")),
        wrong("layer_norm", kind, "bias_alone", edit("(in[c] - middle) * scale * weight[c] + bias[c]", "bias[c]")),
        wrong("mse_loss", kind, "zero", edit("*loss = (float)(sum / rows);", "*loss = 0.0f;")),
        wrong("kl_divergence", kind, "zero", edit("*loss = (float)(sum / rows);", "*loss = 0.0f;")),
        wrong("row_argmax", kind, "zero", edit("y[row] = best;", "y[row] = 0;")),
        wrong("positive_mask", kind, "all_true", store("true")),
        wrong("half_relu", kind, "zeros", store("0")),
        wrong("almost_constant", kind, "one", edit("v + 1.0f", "1.0f"), gate="4 signal", quick=True),
        wrong("almost_constant", kind, "half_of_the_variation", edit("v + 1.0f", "0.5f * v + 1.0f"), gate="4 signal"),
    ]


def passed_through() -> list[Variant]:
    kind = "an input passed through"
    return [
        wrong("gelu_by_hand", kind, "input", store("x[i]")),
        wrong("hard_swish_chain", kind, "residual", store("residual[i]")),
        wrong("gated_silu", kind, "value", store("value[i]")),
        wrong("bias_relu_twice", kind, "input", store("x[i]")),
        wrong("diagonal_matmul", kind, "second_operand", store("b[i]")),
        wrong("matmul_epilogue", kind, "residual", store("residual[i]")),
        wrong("conv2d_epilogue", kind, "library_result", store("h[i]")),
        wrong("softmax", kind, "input", edit("out[c] = expf(in[c] - top) * scale;", "out[c] = in[c];")),
        wrong("rms_norm", kind, "input", edit("out[c] = in[c] * scale * weight[c]", "out[c] = in[c]")),
        wrong("cumulative_sum", kind, "input", edit("(float)sum", "in[c]")),
    ]


def other_elements() -> list[Variant]:
    kind = "other elements"
    return [
        wrong("affine_clamp_mish", kind, "wrong_channel", edit("i / plane % channels", "i % channels")),
        wrong("gated_silu", kind, "neighbour", edit("value[i]", "value[i ^ 1]")),
        wrong("bias_relu_twice", kind, "bias_of_the_row", edit("bias[i % columns]", "bias[i / columns % columns]")),
        wrong("scaled_masked_softmax", kind, "first_row_of_the_mask", edit("(row % columns) * columns", "0 * columns")),
        wrong("pool_sigmoid", kind, "three_of_four",
              edit("x[at + width + 1] + skip[at + width + 1]", "x[at + width] + skip[at + width]")),
        wrong("group_norm_silu", kind, "channels_of_the_first_group",
              edit("row % groups * of_group + c / plane", "c / plane")),
        wrong("diagonal_matmul", kind, "beside_the_diagonal", edit("* rows + row]", "* rows + (row + 1) % rows]")),
        wrong("layer_norm", kind, "weights_shifted", edit("weight[c]", "weight[(c + 1) % columns]")),
        wrong("cumulative_sum", kind, "from_the_end", edit("sum += in[c];", "sum += in[columns - 1 - c];")),
        wrong("triangular_matmul", kind, "lower_half", edit("row <= column", "row >= column")),
        wrong("cross_entropy", kind, "next_label", edit("in[label[row]]", "in[(label[row] + 1) % columns]")),
        wrong("row_argmax", kind, "smallest", edit("in[c] > in[best]", "in[c] < in[best]")),
        wrong("almost_constant", kind, "neighbour", edit("x[i]", "x[i ^ 1]"), gate="4 signal"),
        wrong("huber_loss", kind, "target_of_another_row",
              edit("target + (long long)row * columns", "target + (long long)(rows - 1 - row) * columns")),
    ]


def variants() -> list[Variant]:
    return (borders() + grid_shares() + half_reductions() + constants() + passed_through() + other_elements())
