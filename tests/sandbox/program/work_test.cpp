#include "sandbox/program/operators/work.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

task read(const std::string& inputs, const std::string& steps, const std::string& weights = "",
          const std::string& output = "y") {
  auto t = read_task(R"({"format": 1, "name": "t", "summary": "s", "family": "f", "inputs": [)" + inputs +
                         R"(], "weights": [)" + weights + R"(], "steps": [)" + steps + R"(], "outputs": [")" + output +
                         R"("]})",
                     "cuda");
  if (!t) ADD_FAILURE() << t.error().message;
  return t.value_or(task{});
}

std::string tensor(const std::string& name, const std::string& shape, const std::string& facts = "",
                   const std::string& type = "float32") {
  return fmt::format(R"({{"name": "{}", "dtype": "{}", "shape": [{}], "facts": [{}]}})", name, type, shape, facts);
}

std::string step(const std::string& op, const std::string& args, const std::string& out = "y") {
  return fmt::format(R"({{"aten": "aten::{}", "args": {{{}}}, "out": ["{}"]}})", op, args, out);
}

std::string list(std::initializer_list<std::string> items) {
  std::string text;
  for (const auto& item : items)
    text += (text.empty() ? "" : ", ") + item;
  return text;
}

const std::string mm = step("mm", R"("self": "a", "mat2": "b")");

// ---- products ----

TEST(work, of_a_product_is_two_flops_per_pair_and_each_tensor_once) {
  const auto w = work_of(read(list({tensor("a", "32, 64"), tensor("b", "64, 16")}), mm));
  EXPECT_EQ(w.flops.float32, 2.0 * 32 * 64 * 16);
  EXPECT_EQ(w.flops.total(), w.flops.float32);
  EXPECT_EQ(w.input_bytes, 4 * (32 * 64 + 64 * 16));
  EXPECT_EQ(w.output_bytes, 4 * 32 * 16);
  EXPECT_EQ(w.least_bytes(), w.bytes());
}

TEST(work, chooses_the_unit_by_dtype_and_precision) {
  const auto inputs = [](const char* type) {
    return list({tensor("a", "8, 8", "", type), tensor("b", "8, 8", "", type)});
  };
  EXPECT_EQ(work_of(read(inputs("float16"), mm)).flops.half, 1024);
  EXPECT_EQ(work_of(read(inputs("bfloat16"), mm)).flops.half, 1024);
  EXPECT_EQ(work_of(read(inputs("float64"), mm)).flops.float64, 1024);
  const std::string fast =
      R"({"aten": "aten::mm", "args": {"self": "a", "mat2": "b"}, "out": ["y"], "precision": "tf32"})";
  EXPECT_EQ(work_of(read(inputs("float32"), fast)).flops.tf32, 1024);
}

TEST(work, of_linear_addmm_and_batches_counts_every_batch) {
  const auto linear =
      work_of(read(tensor("x", "5, 7, 8"), step("linear", R"("input": "x", "weight": "w", "bias": "c")"),
                   list({tensor("w", "16, 8"), tensor("c", "16")})));
  EXPECT_EQ(linear.flops.float32, 2.0 * 35 * 8 * 16);
  EXPECT_EQ(linear.weight_bytes, 4 * (16 * 8 + 16));
  EXPECT_EQ(linear.least_bytes(), 4 * (35 * 8 + 35 * 16)) << "a setup step may have packed the weights";
  const auto addmm = work_of(read(list({tensor("c", "6"), tensor("a", "4, 8"), tensor("b", "8, 6")}),
                                  step("addmm", R"("self": "c", "mat1": "a", "mat2": "b")")));
  EXPECT_EQ(addmm.flops.float32, 2.0 * 4 * 8 * 6);
  const auto batched =
      work_of(read(list({tensor("a", "3, 4, 8"), tensor("b", "3, 8, 5")}), step("bmm", R"("self": "a", "mat2": "b")")));
  EXPECT_EQ(batched.flops.float32, 2.0 * 3 * 4 * 8 * 5);
  const auto broadcast = work_of(
      read(list({tensor("a", "3, 4, 8"), tensor("b", "8, 5")}), step("matmul", R"("self": "a", "other": "b")")));
  EXPECT_EQ(broadcast.flops.float32, 2.0 * 3 * 4 * 8 * 5);
}

TEST(work, omits_the_zeros_of_a_declared_structure) {
  const auto of = [](const std::string& a, const std::string& b) {
    return work_of(read(list({tensor("a", "64, 64", a), tensor("b", "64, 64", b)}), mm));
  };
  const auto diagonal = of("\"diagonal\"", "");
  EXPECT_EQ(diagonal.flops.float32, 2.0 * 64 * 64) << "a row scaling";
  EXPECT_EQ(diagonal.input_bytes, 4 * 64 + 16384);
  EXPECT_EQ(diagonal.least_input_bytes, 4 * 64 + 16384);
  const auto half = of("\"upper_triangular\"", "");
  EXPECT_EQ(half.flops.float32, 2.0 * 64 * (64.0 * 65 / 2));
  EXPECT_EQ(half.input_bytes, 4 * (64 * 65 / 2) + 16384);
  EXPECT_EQ(of("\"upper_triangular\"", "\"upper_triangular\"").flops.float32, 2.0 * (64.0 * 65 * 66 / 6));
  EXPECT_EQ(of("\"lower_triangular\"", "\"upper_triangular\"").flops.float32, 2.0 * (64.0 * 65 * 129 / 6))
      << "the sum of k squared";
  EXPECT_EQ(of("\"one_hot\"", "").flops.float32, 2.0 * 64 * 64) << "a gather";
  EXPECT_EQ(of("\"symmetric\"", "").input_bytes, 4 * (64 * 65 / 2) + 16384);
}

TEST(work, a_transposed_lower_triangle_is_an_upper_one) {
  const auto w =
      work_of(read(list({tensor("a", "64, 64", "\"lower_triangular\""), tensor("b", "64, 64", "\"upper_triangular\"")}),
                   list({step("t", R"("self": "a")", "u"), step("mm", R"("self": "u", "mat2": "b")")})));
  EXPECT_EQ(w.flops.float32, 2.0 * (64.0 * 65 * 66 / 6));
}

TEST(work, a_mask_over_a_product_halves_it_once) {
  const std::string steps = list({step("mm", R"("self": "a", "mat2": "b")", "c"), step("triu", R"("self": "c")")});
  const auto dense = work_of(read(list({tensor("a", "64, 64"), tensor("b", "64, 64")}), steps));
  EXPECT_EQ(dense.flops.float32, 2.0 * 64 * (64.0 * 65 / 2));
  const std::string upper = "\"upper_triangular\"";
  const auto both = work_of(read(list({tensor("a", "64, 64", upper), tensor("b", "64, 64", upper)}), steps));
  EXPECT_EQ(both.flops.float32, 2.0 * (64.0 * 65 * 66 / 6));
}

TEST(work, of_a_product_that_is_only_summed_has_no_product_flops) {
  const std::string weights = list({tensor("w", "16, 8"), tensor("c", "16")});
  const std::string linear = step("linear", R"("input": "x", "weight": "w", "bias": "c")", "h");
  const auto sum = [](const char* of) {
    return step("sum.dim_IntList", fmt::format(R"("self": "{}", "dim": [1])", of));
  };
  const auto avoided = work_of(read(
      tensor("x", "32, 8"), list({linear, step("mul.Scalar", R"("self": "h", "other": 2)", "m"), sum("m")}), weights));
  EXPECT_EQ(avoided.flops.total(), 0) << "a matrix and a vector";
  EXPECT_EQ(avoided.input_bytes, 4 * 32 * 8);
  EXPECT_EQ(avoided.weight_bytes, 0) << "folded once";
  const auto kept =
      work_of(read(tensor("x", "32, 8"), list({linear, step("relu", R"("self": "h")", "m"), sum("m")}), weights));
  EXPECT_EQ(kept.flops.float32, 2.0 * 32 * 8 * 16) << "a relu is between";
  EXPECT_EQ(kept.weight_bytes, 4 * (16 * 8 + 16));
}

TEST(work, of_a_gated_layer_has_the_flops_of_all_its_products) {
  const std::string weights =
      list({tensor("g", "16, 8"), tensor("u", "16, 8"), tensor("d", "8, 16"), tensor("s", "16")});
  const auto layer = [](const char* of, const char* weight, const char* out) {
    return step("linear", fmt::format(R"("input": "{}", "weight": "{}")", of, weight), out);
  };
  const auto gated = [&](const char* by) {
    return work_of(
        read(tensor("x", "32, 8"),
             list({layer("x", "g", "a"), layer("x", "u", "b"), step("silu", R"("self": "a")", "c"),
                   step("mul.Tensor", fmt::format(R"("self": "b", "other": "{}")", by), "e"), layer("e", "d", "y")}),
             weights));
  };
  EXPECT_EQ(gated("c").flops.float32, 3 * 2.0 * 32 * 8 * 16);
  EXPECT_EQ(gated("s").flops.total(), 0) << "scales of features are part of the weights";
}

TEST(work, of_a_chain_of_products_assumes_the_best_order) {
  const std::string inputs = list({tensor("a", "64, 64"), tensor("b", "64, 64"), tensor("c", "64, 1")});
  const auto w = work_of(
      read(inputs, list({step("mm", R"("self": "a", "mat2": "b")", "d"), step("mm", R"("self": "d", "mat2": "c")")})));
  EXPECT_EQ(w.flops.total(), 0) << "a (b c) costs next to nothing";
  const auto between =
      work_of(read(inputs, list({step("mm", R"("self": "a", "mat2": "b")", "d"), step("tanh", R"("self": "d")", "e"),
                                 step("mm", R"("self": "e", "mat2": "c")")})));
  EXPECT_EQ(between.flops.float32, 2.0 * 64 * 64 * 65);
}

// ---- attention ----

TEST(work, of_attention_is_both_products_and_half_of_them_where_causal) {
  const std::string qkv = list({tensor("q", "2, 3, 16, 8"), tensor("k", "2, 3, 16, 8"), tensor("v", "2, 3, 16, 8")});
  const auto full =
      work_of(read(qkv, step("scaled_dot_product_attention", R"("query": "q", "key": "k", "value": "v")")));
  EXPECT_EQ(full.flops.float32, 2.0 * 6 * 16 * 16 * (8 + 8));
  EXPECT_EQ(full.bytes(), 4 * 6 * 16 * (4 * 8));
  const auto causal = work_of(
      read(qkv, step("scaled_dot_product_attention", R"("query": "q", "key": "k", "value": "v", "is_causal": true)")));
  EXPECT_EQ(causal.flops.float32, 2.0 * 6 * (16.0 * 17 / 2) * (8 + 8));
}

TEST(work, of_an_einsum_is_its_products_in_the_best_order) {
  const auto einsum = [](const std::string& equation, const std::string& names) {
    return step("einsum", fmt::format(R"("equation": "{}", "tensors": [{}])", equation, names));
  };
  const auto two = list({tensor("a", "4, 32, 64"), tensor("b", "16, 64")});
  EXPECT_EQ(work_of(read(two, einsum("bij,kj->bki", R"("a", "b")"))).flops.float32, 2.0 * 4 * 32 * 64 * 16);
  EXPECT_EQ(work_of(read(two, einsum("...j,kj->...k", R"("a", "b")"))).flops.float32, 2.0 * 4 * 32 * 64 * 16);
  const auto pointwise = list({tensor("a", "4, 32"), tensor("b", "32")});
  EXPECT_EQ(work_of(read(pointwise, einsum("ij,j->ij", R"("a", "b")"))).flops.total(), 0);
  // a (b c) is less work than (a b) c where c has one column.
  const auto three = list({tensor("a", "32, 64"), tensor("b", "64, 16"), tensor("c", "16, 1")});
  EXPECT_EQ(work_of(read(three, einsum("ij,jk,kl->il", R"("a", "b", "c")"))).flops.float32,
            2.0 * (64 * 16 * 1 + 32 * 64 * 1));
}

TEST(work, of_other_contractions_is_two_flops_per_pair) {
  const auto dots = list({tensor("a", "4, 8, 16"), tensor("b", "16, 8, 3")});
  const auto tensordot = step("tensordot", R"("self": "a", "other": "b", "dims_self": [1, -1], "dims_other": [1, 0])");
  EXPECT_EQ(work_of(read(dots, tensordot)).flops.float32, 2.0 * 4 * 8 * 16 * 3);
  const auto pair = list({tensor("a", "4, 8"), tensor("b", "4, 6"), tensor("w", "5, 8, 6")});
  EXPECT_EQ(work_of(read(pair, step("bilinear", R"("input1": "a", "input2": "b", "weight": "w")"))).flops.float32,
            2.0 * 4 * 5 * 8 * 6);
  const auto summed = list({tensor("s", "3, 5"), tensor("a", "2, 3, 4"), tensor("b", "2, 4, 5")});
  EXPECT_EQ(work_of(read(summed, step("addbmm", R"("self": "s", "batch1": "a", "batch2": "b")"))).flops.float32,
            2.0 * 2 * 3 * 4 * 5);
}

TEST(work, of_a_recurrent_layer_is_every_matrix_at_every_step) {
  const auto inputs = list({tensor("x", "7, 2, 3"), tensor("h", "2, 2, 4"), tensor("c", "2, 2, 4")});
  const auto weights = list({tensor("p", "16, 3"), tensor("q", "16, 4"), tensor("r", "16, 3"), tensor("s", "16, 4")});
  const auto lstm = [](const std::string& out) {
    return R"({"aten": "aten::lstm.input", "args": {"input": "x", "hx": ["h", "c"], "params": ["p", "q", "r", "s"],
      "has_biases": false, "num_layers": 1, "dropout": 0.0, "train": false, "bidirectional": true,
      "batch_first": false}, "out": )" +
           out + "}";
  };
  const double flops = 2.0 * 7 * 2 * 2 * (16 * 3 + 16 * 4);
  const auto all = work_of(read(inputs, lstm(R"(["y", "", ""])"), weights));
  EXPECT_EQ(all.flops.float32, flops);
  EXPECT_EQ(all.input_bytes, 4 * (7 * 2 * 3 + 2 * 2 * 2 * 4));
  EXPECT_EQ(all.weight_bytes, 4 * 2 * (16 * 3 + 16 * 4));
  EXPECT_EQ(all.least_input_bytes, 0);  // no bound is claimed through gates
  const auto last = work_of(read(inputs, lstm(R"(["", "y", ""])"), weights));
  EXPECT_EQ(last.flops.float32, flops);
  EXPECT_EQ(last.output_bytes, 4 * 2 * 2 * 4);
}

TEST(work, of_a_list_of_parts_is_the_parts_that_are_read) {
  const std::string split =
      R"({"aten": "aten::split.Tensor", "args": {"self": "x", "split_size": 2, "dim": 1}, "out": ["a", "b", ""]})";
  const auto w = work_of(read(tensor("x", "8, 6"), list({split, step("exp", R"("self": "b")")})));
  EXPECT_EQ(w.input_bytes, 4 * 8 * 2);
  EXPECT_EQ(w.least_input_bytes, 0);
}

TEST(work, of_attention_by_hand_is_that_of_its_products) {
  const auto w = work_of(
      read(list({tensor("q", "2, 16, 8"), tensor("k", "2, 8, 16"), tensor("v", "2, 16, 8")}),
           list({step("bmm", R"("self": "q", "mat2": "k")", "s"), step("softmax.int", R"("self": "s", "dim": -1)", "p"),
                 step("bmm", R"("self": "p", "mat2": "v")")})));
  EXPECT_EQ(w.flops.float32, 2.0 * 2 * 16 * 16 * (8 + 8));
}

// ---- convolutions ----

TEST(work, of_a_convolution_counts_the_taps_inside) {
  const auto of = [](const char* more, const char* weight = "16, 8, 3, 3") {
    return work_of(read(tensor("x", "4, 8, 10, 12"),
                        step("conv2d", std::string(R"("input": "x", "weight": "w")") + more), tensor("w", weight)));
  };
  const auto valid = of("");
  EXPECT_EQ(valid.flops.tf32, 2.0 * 4 * 16 * 8 * (8 * 3) * (10 * 3));
  EXPECT_EQ(valid.flops.float32, 0);
  EXPECT_EQ(valid.bytes(), 4 * (4 * 8 * 10 * 12 + 16 * 8 * 9 + 4 * 16 * 8 * 10));
  const auto padded = of(R"(, "padding": [1, 1])");
  EXPECT_EQ(padded.flops.tf32, 2.0 * 4 * 16 * 8 * (10 * 3 - 2) * (12 * 3 - 2))
      << "taps beyond the border are not counted";
  const auto grouped = of(R"(, "groups": 8)", "16, 1, 3, 3");
  EXPECT_EQ(grouped.flops.tf32, valid.flops.tf32 / 8);
}

TEST(work, of_a_strided_convolution_omits_what_no_window_covers) {
  const auto w =
      work_of(read(tensor("x", "1, 4, 9, 9"), step("conv2d", R"("input": "x", "weight": "w", "stride": [4, 4])"),
                   tensor("w", "4, 4, 1, 1")));
  EXPECT_EQ(w.input_bytes, 4 * 4 * 9) << "3 of 9 in each direction";
  EXPECT_EQ(w.least_input_bytes, 4 * 4 * 9);
  EXPECT_EQ(w.flops.tf32, 2.0 * 4 * 4 * 9);
}

TEST(work, of_a_transposed_convolution_counts_its_input_times_the_taps) {
  const auto w = work_of(read(tensor("x", "2, 8, 5, 6"),
                              step("conv_transpose2d.input", R"("input": "x", "weight": "w", "stride": [2, 2])"),
                              tensor("w", "8, 4, 3, 3")));
  EXPECT_EQ(w.flops.tf32, 2.0 * 2 * 8 * 4 * (5 * 3) * (6 * 3));
  EXPECT_EQ(w.output_bytes, 4 * 2 * 4 * 11 * 13);
}

TEST(work, of_one_and_three_dimensions) {
  const auto one =
      work_of(read(tensor("x", "2, 3, 20"), step("conv1d", R"("input": "x", "weight": "w", "dilation": [2])"),
                   tensor("w", "5, 3, 3")));
  EXPECT_EQ(one.flops.tf32, 2.0 * 2 * 5 * 3 * (16 * 3));
  const auto three = work_of(read(tensor("x", "1, 2, 6, 6, 6"), step("conv3d", R"("input": "x", "weight": "w")"),
                                  tensor("w", "4, 2, 3, 3, 3")));
  EXPECT_EQ(three.flops.tf32, 2.0 * 4 * 2 * (12.0 * 12 * 12));
}

// ---- bytes ----

TEST(work, of_a_softmax_is_its_bytes) {
  const auto w = work_of(read(tensor("x", "64, 32"), step("softmax.int", R"("self": "x", "dim": 1)")));
  EXPECT_EQ(w.flops.total(), 0);
  EXPECT_EQ(w.bytes(), 2 * 4 * 64 * 32);
  EXPECT_EQ(w.least_bytes(), 2 * 4 * 64 * 32);
  EXPECT_EQ(w.least_bytes(4 * 64 * 32), 4 * 64 * 32) << "the result may still be in the cache";
  EXPECT_EQ(w.least_bytes(1 << 30), 4 * 64 * 32);
}

TEST(work, counts_only_the_used_part_of_an_input) {
  const std::string x = tensor("x", "64, 32");
  const auto slice = work_of(read(x, list({step("slice.Tensor", R"("self": "x", "dim": 0, "start": 0, "end": 16)", "s"),
                                           step("relu", R"("self": "s")")})));
  EXPECT_EQ(slice.input_bytes, 4 * 16 * 32);
  const auto halves =
      work_of(read(x, list({step("slice.Tensor", R"("self": "x", "dim": 0, "start": 0, "end": 32)", "a"),
                            step("slice.Tensor", R"("self": "x", "dim": 0, "start": 32, "end": 64)", "b"),
                            step("mul.Tensor", R"("self": "a", "other": "b")")})));
  EXPECT_EQ(halves.input_bytes, 4 * 64 * 32);
  const auto unused = work_of(read(list({x, tensor("z", "64, 32")}), step("relu", R"("self": "x")")));
  EXPECT_EQ(unused.input_bytes, 4 * 64 * 32);
  const auto shape_only = work_of(read(x, step("zeros_like", R"("self": "x")")));
  EXPECT_EQ(shape_only.input_bytes, 0);
  const auto masked = work_of(read(tensor("x", "8, 8"), step("tril", R"("self": "x")")));
  EXPECT_EQ(masked.input_bytes, 4 * 36);
  EXPECT_EQ(masked.output_bytes, 4 * 64);
}

// ---- the bound ----

struct cancelling {
  const char* what;
  std::string steps;
};

TEST(work, claims_no_bound_for_an_input_that_the_result_may_not_depend_on) {
  const std::string softmax = step("softmax.int", R"("self": "x", "dim": 1)", "p");
  const std::string mean = step("mean.dim", R"("self": "x", "dim": [1], "keepdim": true)", "m");
  const std::string norm = step("layer_norm", R"("input": "x", "normalized_shape": [32])", "p");
  const std::string sum = step("sum.dim_IntList", R"("self": "p", "dim": [1])");
  const cancelling cases[] = {
      {"softmax, summed", list({softmax, sum})},
      {"normalized, summed", list({norm, sum})},
      {"centred, summed", list({mean, step("sub.Tensor", R"("self": "x", "other": "m")", "p"), sum})},
      {"less itself", step("sub.Tensor", R"("self": "x", "other": "x")")},
      {"times 0", step("mul.Scalar", R"("self": "x", "other": 0)")},
      {"minimum with 0, then at least 0",
       list({step("clamp", R"("self": "x", "max": 0)", "p"), step("clamp", R"("self": "p", "min": 0)")})},
      {"relu of a negative", list({step("square", R"("self": "x")", "p"), step("neg", R"("self": "p")", "q"),
                                   step("relu", R"("self": "q")")})},
      {"masked", step("tril", R"("self": "x")")},
      {"to an integer", step("to.dtype", R"("self": "x", "dtype": "int32")")},
  };
  for (const auto& c : cases)
    EXPECT_EQ(work_of(read(tensor("x", "64, 32"), c.steps)).least_input_bytes, 0) << c.what;
  for (const auto* draw : {R"("simplex")", R"("signs")", R"("constant", "value": 2)"}) {
    const std::string known =
        R"({"name": "x", "dtype": "float32", "shape": [64, 32], "draw": {"distribution": )" + std::string(draw) + "}}";
    EXPECT_EQ(work_of(read(known, step("square", R"("self": "x")"))).least_input_bytes, 0) << draw;
  }
  const std::string column = tensor("x", "64, 1");
  EXPECT_EQ(work_of(read(column, step("softmax.int", R"("self": "x", "dim": 1)"))).least_input_bytes, 0)
      << "the softmax of one element is 1";
  EXPECT_EQ(work_of(read(list({tensor("a", "8, 8"), tensor("b", "8, 8", "\"one_hot\"")}),
                         step("mm", R"("self": "b", "mat2": "a")")))
                .least_input_bytes,
            0)
      << "some rows may not be selected";
}

TEST(work, claims_bounds_along_paths_where_nothing_cancels) {
  const cancelling cases[] = {
      {"relu", step("relu", R"("self": "x")")},
      {"gelu of a shift",
       list({step("add.Scalar", R"("self": "x", "other": 1)", "p"), step("gelu", R"("self": "p")")})},
      {"sum of squares",
       list({step("square", R"("self": "x")", "p"), step("sum.dim_IntList", R"("self": "p", "dim": [1])")})},
      {"largest", step("amax", R"("self": "x", "dim": [1])")},
      {"gelu of layer norm",
       list({step("layer_norm", R"("input": "x", "normalized_shape": [32])", "p"), step("gelu", R"("self": "p")")})},
      {"relu of a product",
       list({step("linear", R"("input": "x", "weight": "w")", "p"), step("relu", R"("self": "p")")})},
      {"running sum", step("cumsum", R"("self": "x", "dim": 1)")},
  };
  for (const auto& c : cases)
    EXPECT_EQ(work_of(read(tensor("x", "64, 32"), c.steps, tensor("w", "16, 32"))).least_input_bytes, 4 * 64 * 32)
        << c.what;
}

// ---- built-in tasks ----

TEST(work, of_the_built_in_tasks_is_at_most_their_tensors_with_bounds_below_estimates) {
  const auto folder = builtin_task_folder();
  ASSERT_TRUE(folder) << folder.error().message;
  for (const char* profile : {"cpu", "cuda"}) {
    const auto tasks = load_tasks(*folder, profile);
    ASSERT_TRUE(tasks) << tasks.error().message;
    for (const auto& t : *tasks) {
      const auto w = work_of(t);
      int64_t inputs = 0, outputs = 0;
      for (const auto& d : t.reference.text.inputs)
        inputs += d.type.bytes();
      for (const auto& name : t.reference.text.outputs)
        outputs += t.reference.types.at(name).bytes();
      EXPECT_GT(w.input_bytes, 0) << t.name;
      EXPECT_LE(w.input_bytes, inputs) << t.name;
      EXPECT_EQ(w.output_bytes, outputs) << t.name;
      EXPECT_LE(w.least_bytes(), w.bytes()) << t.name;
    }
  }
}

}  // namespace
}  // namespace cudal1
