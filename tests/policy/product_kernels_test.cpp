// Products as kernels of our own: every layout, odd sizes, what follows them, every way to divide their work. The gates
// judge them, with CUDA's kernels compiled for the host, where tensor cores are emulated.
#include <algorithm>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/moves/lowering.hpp"
#include "policy/moves/move_registry.hpp"
#include "tests/policy/product_cases.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

product_case linear_case(const std::string& name, int64_t rows, int64_t k, int64_t columns,
                         const std::string& tuning = "", int kernels = 1) {
  return {name,
          made(name, tensor("x", fmt::format("{}, {}", rows, k)),
               tensor("w", fmt::format("{}, {}", columns, k)) + ", " + tensor("b", std::to_string(columns)),
               step("linear", R"("input": "x", "weight": "w", "bias": "b")", "h") + ", " +
                   step("relu", R"("self": "h")", "y"),
               R"("y")"),
          "fuse(steps=1); product_kernel(steps=0..1)" + (tuning.empty() ? "" : "; " + tuning), kernels};
}

product_case one_step(const std::string& name, const std::string& inputs, const std::string& steps, int last) {
  return {name, made(name, inputs, "", steps, R"("y")"), fmt::format("product_kernel(steps={})", last)};
}

std::vector<product_case> cases() {
  std::vector<product_case> out;
  out.push_back(linear_case("aligned", 64, 64, 64));
  out.push_back(linear_case("odd_sizes", 17, 41, 23));
  out.push_back(linear_case("one_row", 1, 100, 50));
  out.push_back(linear_case("one_column", 50, 100, 1));
  out.push_back(linear_case("one_term", 20, 1, 12));
  out.push_back(
      linear_case("several_tiles", 70, 36, 150, "tile_rows(group=0, rows=32); tile_columns(group=0, columns=64)"));
  for (const int64_t rows : {16, 32, 64, 128})
    for (const int64_t columns : {32, 64, 128})
      out.push_back(linear_case(fmt::format("tile_{}_{}", rows, columns), 130, 40, 132,
                                fmt::format("tile_rows(group=0, rows={}); tile_columns(group=0, columns={}); "
                                            "depth_parts(group=0, parts=1)",
                                            rows, columns)));
  for (const int64_t parts : {2, 3, 8})
    out.push_back(linear_case(fmt::format("parts_{}", parts), 33, 250, 36,
                              fmt::format("depth_parts(group=0, parts={})", parts), 2));
  // Results that take longer to store than to make: by lines, in whole, partial and transposed tiles.
  const std::string tiles = "tile_rows(group=0, rows=64); tile_columns(group=0, columns=64)";
  out.push_back(linear_case("large_results", 1088, 8, 2048, tiles));
  out.push_back(linear_case("large_results_partial", 1001, 12, 2180, tiles));
  out.push_back(one_step("large_results_of_batches", tensor("a", "70, 100, 8") + ", " + tensor("b", "70, 8, 200"),
                         step("bmm", R"("self": "a", "mat2": "b")", "y"), 0));
  out.back().schedule += "; " + tiles;
  out.push_back(linear_case("many_stages", 16, 700, 32, "depth_parts(group=0, parts=1)"));
  out.push_back(one_step("mm", tensor("a", "40, 36") + ", " + tensor("b", "36, 52"),
                         step("mm", R"("self": "a", "mat2": "b")", "y"), 0));
  out.push_back(one_step("mm_odd", tensor("a", "39, 35") + ", " + tensor("b", "35, 51"),
                         step("mm", R"("self": "a", "mat2": "b")", "y"), 0));
  out.push_back(one_step("transposed_left", tensor("a", "36, 40") + ", " + tensor("b", "36, 52"),
                         step("t", R"("self": "a")", "at") + ", " + step("mm", R"("self": "at", "mat2": "b")", "y"),
                         1));
  out.push_back(one_step("transposed_both", tensor("a", "36, 40") + ", " + tensor("b", "52, 36"),
                         step("t", R"("self": "a")", "at") + ", " + step("t", R"("self": "b")", "bt") + ", " +
                             step("mm", R"("self": "at", "mat2": "bt")", "y"),
                         2));
  out.push_back(one_step("bmm", tensor("a", "3, 20, 36") + ", " + tensor("b", "3, 36, 24"),
                         step("bmm", R"("self": "a", "mat2": "b")", "y"), 0));
  out.push_back(one_step("matmul_spreads_left", tensor("a", "20, 36") + ", " + tensor("b", "3, 36, 24"),
                         step("matmul", R"("self": "a", "other": "b")", "y"), 0));
  out.push_back(one_step("matmul_spreads_right", tensor("a", "2, 3, 20, 36") + ", " + tensor("b", "3, 36, 24"),
                         step("matmul", R"("self": "a", "other": "b")", "y"), 0));
  out.push_back(one_step("addmm", tensor("c", "40, 52") + ", " + tensor("a", "40, 36") + ", " + tensor("b", "36, 52"),
                         step("addmm", R"("self": "c", "mat1": "a", "mat2": "b", "beta": 0.5, "alpha": -2.0)", "y"),
                         0));
  out.push_back(
      {"residual_and_scale",
       made("residual_and_scale", tensor("x", "4, 10, 36") + ", " + tensor("r", "10, 20") + ", " + tensor("s", "20"),
            tensor("w", "20, 36"),
            step("linear", R"("input": "x", "weight": "w")", "h") + ", " +
                step("mul.Tensor", R"("self": "h", "other": "s")", "m") + ", " +
                step("add.Tensor", R"("self": "m", "other": "r")", "a") + ", " + step("gelu", R"("self": "a")", "y"),
            R"("y", "h")"),
       "fuse(steps=1..3); product_kernel(steps=0..3)"});
  out.push_back({"softmax",
                 made("softmax", tensor("x", "30, 64"), tensor("w", "70, 64"),
                      step("linear", R"("input": "x", "weight": "w")", "h") + ", " +
                          step("mul.Scalar", R"("self": "h", "other": 0.5)", "m") + ", " +
                          step("softmax.int", R"("self": "m", "dim": -1)", "y"),
                      R"("y")"),
                 "row_kernel(steps=1..2); product_kernel(steps=0..2); depth_parts(group=0, parts=2)", 2});
  out.push_back({"sum_over_rows",  // no tile holds a column
                 made("sum_over_rows", tensor("x", "300, 64"), tensor("w", "70, 64"),
                      step("linear", R"("input": "x", "weight": "w")", "h") + ", " +
                          step("sum.dim_IntList", R"("self": "h", "dim": [0])", "y"),
                      R"("y")"),
                 "row_kernel(steps=1); product_kernel(steps=0..1)", 2});
  // What the view shows is in no memory.
  out.push_back({"view_in_another_kernel",
                 made("view_in_another_kernel", tensor("x", "7, 32"), tensor("w", "64, 32"),
                      step("neg", R"("self": "x")", "n") + ", " + step("unsqueeze", R"("self": "n", "dim": 0)", "u") +
                          ", " + step("linear", R"("input": "u", "weight": "w")", "y"),
                      R"("y")"),
                 "fuse(steps=0..1); product_kernel(steps=2)", 2});
  return out;
}

// The case with the product in another form: `form` is a parameter of its move, as in "depth=warps".
product_case linear_in_form(const std::string& form, const product_case& plain) {
  product_case out = plain;
  const std::string steps = "steps=0..1";
  out.schedule.replace(out.schedule.find(steps), steps.size(), steps + ", " + form);
  return out;
}

// Float32 operands as scaled halves: each form of the kernels that split an operand, every tile, parts, triangles.
std::vector<product_case> cases_of_halves() {
  std::vector<product_case> out;
  const auto linear = [&](const std::string& name, int64_t rows, int64_t k, int64_t columns,
                          const std::string& tuning = "", int kernels = 2) {  // the weight is split at set-up
    out.push_back(linear_in_form("factors=halves", linear_case(name + "_halves", rows, k, columns, tuning, kernels)));
  };
  const auto one = [&](const std::string& name, const std::string& inputs, const std::string& steps, int last) {
    out.push_back({name + "_halves", made(name, inputs, "", steps, R"("y")"),
                   fmt::format("product_kernel(steps={}, factors=halves)", last), 3});
  };
  linear("aligned", 64, 64, 64);
  linear("odd_sizes", 17, 41, 23);
  linear("one_term", 20, 1, 12);
  for (const int64_t rows : {64, 128})
    for (const int64_t columns : {64, 128})
      linear(fmt::format("tile_{}_{}", rows, columns), 140, 330, 200,
             fmt::format("tile_rows(group=0, rows={}); tile_columns(group=0, columns={}); "
                         "depth_parts(group=0, parts=1)",
                         rows, columns));
  linear("long_rows", 3, 2052, 5, "depth_parts(group=0, parts=1)");
  linear("parts", 33, 250, 36, "depth_parts(group=0, parts=3)", 3);
  linear("many_row_tiles", 600, 32, 70, "tile_rows(group=0, rows=64); depth_parts(group=0, parts=1)");
  const auto mm = step("mm", R"("self": "a", "mat2": "b")", "y");
  one("mm", tensor("a", "40, 36") + ", " + tensor("b", "36, 52"), mm, 0);
  one("mm_odd", tensor("a", "39, 35") + ", " + tensor("b", "35, 51"), mm, 0);
  one("many_columns", tensor("a", "5, 9") + ", " + tensor("b", "9, 2050"), mm, 0);
  one("transposed_left", tensor("a", "36, 40") + ", " + tensor("b", "36, 52"),
      step("t", R"("self": "a")", "at") + ", " + step("mm", R"("self": "at", "mat2": "b")", "y"), 1);
  one("bmm", tensor("a", "3, 20, 36") + ", " + tensor("b", "3, 36, 24"),
      step("bmm", R"("self": "a", "mat2": "b")", "y"), 0);
  one("matmul_spreads_right", tensor("a", "2, 3, 20, 36") + ", " + tensor("b", "3, 36, 24"),
      step("matmul", R"("self": "a", "other": "b")", "y"), 0);
  out.push_back(
      {"transposed_weight_halves",  // split at set-up, as the weight itself would be
       made("transposed_weight", tensor("a", "40, 36"), tensor("w", "52, 36"),
            step("t", R"("self": "w")", "wt") + ", " + step("mm", R"("self": "a", "mat2": "wt")", "y"), R"("y")"),
       "product_kernel(steps=1, factors=halves)", 2});
  out.push_back({"slice_of_a_weight_halves",
                 made("slice_of_a_weight", tensor("a", "40, 36"), tensor("w", "40, 52"),
                      step("slice.Tensor", R"("self": "w", "dim": 0, "start": 3, "end": 39)", "s") + ", " +
                          step("mm", R"("self": "a", "mat2": "s")", "y"),
                      R"("y")"),
                 "product_kernel(steps=1, factors=halves)", 3});
  one("with_itself", tensor("a", "48, 48"), step("mm", R"("self": "a", "mat2": "a")", "y"), 0);
  // Rows whose magnitudes are far apart, and beyond what a half can hold.
  one("scaled_rows", tensor("a", "40, 36") + ", " + tensor("s", "40, 1") + ", " + tensor("b", "36, 52"),
      step("mul.Scalar", R"("self": "s", "other": 15.0)", "e") + ", " + step("exp", R"("self": "e")", "f") + ", " +
          step("mul.Tensor", R"("self": "a", "other": "f")", "c") + ", " +
          step("mm", R"("self": "c", "mat2": "b")", "y"),
      3);
  out.back().schedule = "fuse(steps=0..2); " + out.back().schedule;
  out.back().kernels = 4;
  return out;
}

// Cases of products in one form, named after it.
struct cases_in_form {
  std::string name, form;
  std::vector<product_case> all = {};

  void linear(const std::string& of, int64_t rows, int64_t k, int64_t columns, const std::string& tuning = "") {
    all.push_back(linear_in_form(form, linear_case(fmt::format("{}_{}", of, name), rows, k, columns, tuning)));
  }
  // The step `last` is the product, and alone in its kernel.
  void one(const std::string& of, const std::string& inputs, const std::string& weights, const std::string& steps,
           int last) {
    all.push_back({fmt::format("{}_{}", of, name), made(of, inputs, weights, steps, R"("y")"),
                   fmt::format("product_kernel(steps={}, {})", last, form), 1});
  }
};

// The warps of a block share k: every tile, odd m, n and k, batches, what follows.
std::vector<product_case> cases_of_depth_of_warps() {
  cases_in_form of_warps{"warps", "depth=warps"};
  std::vector<product_case>& out = of_warps.all;
  of_warps.linear("aligned", 64, 256, 64);
  of_warps.linear("odd_sizes", 17, 44, 23);
  of_warps.linear("one_row", 1, 100, 50);
  of_warps.linear("one_column", 50, 100, 1);
  of_warps.linear("few_terms", 20, 4, 12);
  of_warps.linear("many_terms", 19, 2052, 18);
  of_warps.linear("many_blocks", 300, 68, 500);
  for (const int64_t rows : {16, 32})
    for (const int64_t columns : {16, 32})
      of_warps.linear(fmt::format("tile_{}_{}", rows, columns), 70, 300, 72,
                      fmt::format("tile_rows(group=0, rows={}); tile_columns(group=0, columns={})", rows, columns));
  const auto transposed = step("transpose.int", R"("self": "b", "dim0": -2, "dim1": -1)", "bt") + ", ";
  of_warps.one("mm", tensor("a", "40, 36") + ", " + tensor("b", "52, 36"), "",
               transposed + step("mm", R"("self": "a", "mat2": "bt")", "y"), 1);
  of_warps.one("bmm", tensor("a", "3, 20, 36") + ", " + tensor("b", "3, 24, 36"), "",
               transposed + step("bmm", R"("self": "a", "mat2": "bt")", "y"), 1);
  of_warps.one("matmul_spreads_right", tensor("a", "2, 3, 20, 36") + ", " + tensor("b", "3, 24, 36"), "",
               transposed + step("matmul", R"("self": "a", "other": "bt")", "y"), 1);
  of_warps.one("with_itself", tensor("b", "48, 48"), "", transposed + step("mm", R"("self": "b", "mat2": "bt")", "y"),
               1);
  of_warps.one("triangle", tensor("x", "70, 200"), triangle("w", "200, 200", "lower_triangular"),
               step("linear", R"("input": "x", "weight": "w")", "y"), 0);
  for (const char* type : {"float16", "bfloat16"}) {
    of_warps.one(type, tensor("x", "35, 392", type), tensor("w", "40, 392", type),
                 step("linear", R"("input": "x", "weight": "w")", "y"), 0);
    of_warps.one(fmt::format("few_terms_{}", type), tensor("x", "35, 8", type), tensor("w", "20, 8", type),
                 step("linear", R"("input": "x", "weight": "w")", "y"), 0);
  }
  out.push_back({"softmax_warps",
                 made("softmax", tensor("x", "30, 64"), tensor("w", "70, 64"),
                      step("linear", R"("input": "x", "weight": "w")", "h") + ", " +
                          step("softmax.int", R"("self": "h", "dim": -1)", "y"),
                      R"("y")"),
                 "row_kernel(steps=1); product_kernel(steps=0..1, depth=warps)", 2});
  return out;
}

// Each thread adds up a small k: every tile, odd numbers, layouts, batches, triangles, what follows, rows.
std::vector<product_case> cases_of_thread_sums() {
  cases_in_form of_threads{"threads", "by=threads"};
  std::vector<product_case>& out = of_threads.all;
  of_threads.linear("aligned", 64, 32, 64);
  of_threads.linear("odd_sizes", 17, 11, 23);
  of_threads.linear("one_row", 1, 10, 50);
  of_threads.linear("one_column", 50, 10, 1);
  of_threads.linear("one_term", 20, 1, 12);
  of_threads.linear("most_terms", 19, 64, 18);
  for (const int64_t rows : {16, 32, 64, 128})
    for (const int64_t columns : {16, 32, 64, 128, 256})
      if (rows * columns <= 4096)
        of_threads.linear(fmt::format("tile_{}_{}", rows, columns), 140, 9, 260,
                          fmt::format("tile_rows(group=0, rows={}); tile_columns(group=0, columns={})", rows, columns));
  const auto mm = step("mm", R"("self": "a", "mat2": "b")", "y");
  of_threads.one("mm", tensor("a", "40, 13") + ", " + tensor("b", "13, 52"), "", mm, 0);
  of_threads.one("transposed_left", tensor("a", "13, 40") + ", " + tensor("b", "13, 52"), "",
                 step("t", R"("self": "a")", "at") + ", " + step("mm", R"("self": "at", "mat2": "b")", "y"), 1);
  of_threads.one("bmm", tensor("a", "3, 20, 7") + ", " + tensor("b", "3, 7, 24"), "",
                 step("bmm", R"("self": "a", "mat2": "b")", "y"), 0);
  of_threads.one("matmul_spreads_right", tensor("a", "2, 3, 20, 7") + ", " + tensor("b", "3, 7, 24"), "",
                 step("matmul", R"("self": "a", "other": "b")", "y"), 0);
  of_threads.one("triangle", tensor("x", "70, 20"), triangle("w", "20, 20", "lower_triangular"),
                 step("linear", R"("input": "x", "weight": "w")", "y"), 0);
  for (const char* type : {"float16", "bfloat16"})
    of_threads.one(type, tensor("x", "35, 15", type), tensor("w", "41, 15", type),
                   step("linear", R"("input": "x", "weight": "w")", "y"), 0);
  for (const auto& [columns, tile] : {std::pair{5, 16}, {20, 32}, {32, 32}, {100, 128}, {256, 256}})
    out.push_back({fmt::format("softmax_{}_threads", columns),
                   made("softmax", tensor("x", "30, 10"), tensor("w", fmt::format("{}, 10", columns)),
                        step("linear", R"("input": "x", "weight": "w")", "h") + ", " +
                            step("softmax.int", R"("self": "h", "dim": -1)", "y"),
                        R"("y")"),
                   "row_kernel(steps=1); product_kernel(steps=0..1, by=threads); "
                   "tile_columns(group=0, columns=" +
                       std::to_string(tile) + ")",
                   1});
  out.push_back({"sum_over_rows_threads",  // no tile holds a column
                 made("sum_over_rows", tensor("x", "300, 10"), tensor("w", "70, 10"),
                      step("linear", R"("input": "x", "weight": "w")", "h") + ", " +
                          step("sum.dim_IntList", R"("self": "h", "dim": [0])", "y"),
                      R"("y")"),
                 "row_kernel(steps=1); product_kernel(steps=0..1, by=threads)", 2});
  return out;
}

// Warpgroups multiply half types: every tile, odd m, n and k, batches, parts of k, what follows, and results of which a
// lane cannot store eight.
std::vector<product_case> cases_of_warpgroups(const std::string& type) {
  std::vector<product_case> out;
  const auto one = [&](const std::string& name, const std::string& inputs, const std::string& weights,
                       const std::string& steps, int last, const std::string& tuning, int kernels) {
    out.push_back({fmt::format("{}_{}_warpgroups", name, type), made(name, inputs, weights, steps, R"("y")"),
                   fmt::format("product_kernel(steps={}, by=warpgroups){}", last, tuning), kernels});
  };
  const auto linear = [&](const std::string& name, int rows, int k, int columns, const std::string& tuning = "",
                          int kernels = 1) {
    one(name, tensor("x", fmt::format("{}, {}", rows, k), type),
        tensor("w", fmt::format("{}, {}", columns, k), type) + ", " + tensor("b", std::to_string(columns), type),
        step("linear", R"("input": "x", "weight": "w", "bias": "b")", "y"), 0, tuning, kernels);
  };
  const std::string one_part = "; depth_parts(group=0, parts=1)";
  linear("aligned", 128, 256, 128, one_part);
  linear("odd_sizes", 77, 200, 88, one_part);
  linear("odd_columns", 70, 64, 51, one_part);
  linear("one_row", 1, 72, 64, one_part);
  linear("few_terms", 65, 8, 40, one_part);
  linear("parts", 66, 520, 72, "; depth_parts(group=0, parts=3)", 2);
  for (const auto& [rows, columns] : {std::pair{64, 64}, {64, 128}, {128, 64}, {128, 128}, {128, 192}, {128, 256}})
    linear(fmt::format("tile_{}_{}", rows, columns), 140, 264, 328,
           fmt::format("; tile_rows(group=0, rows={}); tile_columns(group=0, columns={})", rows, columns) + one_part);
  const auto transposed = step("transpose.int", R"("self": "b", "dim0": -2, "dim1": -1)", "bt") + ", ";
  one("bmm", tensor("a", "3, 70, 72", type) + ", " + tensor("b", "3, 72, 72", type), "",
      transposed + step("bmm", R"("self": "a", "mat2": "bt")", "y"), 1, one_part, 1);
  // B's columns contiguous: whole and partial tiles, odd k, batches, parts.
  const auto mm = [&](const std::string& name, int rows, int k, int columns, const std::string& tuning,
                      int kernels = 1) {
    one("mm_" + name,
        tensor("a", fmt::format("{}, {}", rows, k), type) + ", " + tensor("b", fmt::format("{}, {}", k, columns), type),
        "", step("mm", R"("self": "a", "mat2": "b")", "y"), 0, tuning, kernels);
  };
  mm("aligned", 128, 256, 128, one_part);
  mm("odd_sizes", 77, 200, 88, one_part);
  mm("parts", 66, 520, 72, "; depth_parts(group=0, parts=3)", 2);
  for (const auto& [rows, columns] : {std::pair{64, 64}, {64, 128}, {128, 64}, {128, 128}, {128, 256}})
    mm(fmt::format("tile_{}_{}", rows, columns), 140, 264, 328,
       fmt::format("; tile_rows(group=0, rows={}); tile_columns(group=0, columns={})", rows, columns) + one_part);
  one("bmm_of_columns", tensor("a", "3, 70, 72", type) + ", " + tensor("b", "3, 72, 80", type), "",
      step("bmm", R"("self": "a", "mat2": "b")", "y"), 0, one_part, 1);
  one("relu", tensor("x", "66, 128", type) + ", " + tensor("r", "66, 96", type), tensor("w", "96, 128", type),
      step("linear", R"("input": "x", "weight": "w")", "h") + ", " + step("relu", R"("self": "h")", "a") + ", " +
          step("add.Tensor", R"("self": "a", "other": "r")", "y"),
      0, one_part, 1);
  out.back().schedule = "fuse(steps=1..2); product_kernel(steps=0..2, by=warpgroups); depth_parts(group=0, parts=1)";
  one("beside_warps", tensor("x", "66, 128", type), tensor("w", "96, 128", type) + ", " + tensor("v", "64, 96", type),
      step("linear", R"("input": "x", "weight": "w")", "h") + ", " +
          step("linear", R"("input": "h", "weight": "v")", "y"),
      0, one_part + "; product_kernel(steps=1); depth_parts(group=1, parts=1)", 2);
  return out;
}

TEST(ProductKernels, WhoseWarpsShareTheDepthNeedTermsSideBySide) {
  const auto refused = [](const std::string& name, const std::string& inputs, const std::string& steps, int last) {
    const auto c = one_step(name, inputs, steps, last);
    return refusal_of(c.what, fmt::format("product_kernel(steps={}, depth=warps)", last));
  };
  const auto mm = step("mm", R"("self": "a", "mat2": "b")", "y");
  EXPECT_THAT(refused("columns", tensor("a", "40, 36") + ", " + tensor("b", "36, 52"), mm, 0),
              testing::HasSubstr("b is not contiguous along k in vectors of 16 bytes"));
  EXPECT_THAT(refused("odd", tensor("a", "40, 35") + ", " + tensor("b", "52, 35"),
                      step("t", R"("self": "b")", "bt") + ", " + step("mm", R"("self": "a", "mat2": "bt")", "y"), 1),
              testing::HasSubstr("is not contiguous along k"));
  const auto both = linear_case("both", 64, 64, 64);
  const auto lowered =
      lower(both.what, *parse_schedule("product_kernel(steps=0, factors=halves, depth=warps)"), for_cuda());
  ASSERT_FALSE(lowered);
  EXPECT_THAT(lowered.error().message, testing::HasSubstr("factors=halves excludes depth=warps"));
}

TEST(ProductKernels, ThreadsAddUpFewTerms) {
  const auto refused = [](int64_t k, const std::string& form) {
    const auto c = linear_in_form(form, linear_case("terms", 20, k, 12));
    return refusal_of(c.what, c.schedule);
  };
  EXPECT_EQ(refused(64, "by=threads"), "");
  EXPECT_THAT(refused(65, "by=threads"), testing::HasSubstr("without tensor cores k is at most 64, and it is 65"));
  EXPECT_THAT(refused(64, "by=lanes"), testing::HasSubstr("by=lanes is not warpgroups or threads"));
}

// Triangles: what is zero is not multiplied. Both forms, in tiles that are whole, partial and empty.
std::vector<product_case> cases_of_triangles() {
  std::vector<product_case> out;
  for (const char* a : {"lower_triangular", "upper_triangular"})
    for (const char* b : {"lower_triangular", "upper_triangular"})
      for (const char* factors : {"", ", factors=halves"})
        out.push_back(
            {fmt::format("{}_{}{}", a, b, factors),
             made("triangles", triangle("a", "200, 200", a) + ", " + triangle("b", "200, 200", b), "",
                  step("mm", R"("self": "a", "mat2": "b")", "y"), R"("y")"),
             fmt::format("product_kernel(steps=0{}); tile_rows(group=0, rows=64); depth_parts(group=0, parts=1)",
                         factors),
             *factors == 0 ? 1 : 3});
  out.push_back({"linear_with_a_triangle",
                 made("linear_with_a_triangle", tensor("x", "70, 200"), triangle("w", "200, 200", "lower_triangular"),
                      step("linear", R"("input": "x", "weight": "w")", "y"), R"("y")"),
                 "product_kernel(steps=0, factors=halves); depth_parts(group=0, parts=1)", 2});
  return out;
}

// Bands: what is zero beside them is not multiplied. On either side, in both forms, scaled, wider than high, and with
// nothing on the diagonal.
std::vector<product_case> cases_of_bands() {
  std::vector<product_case> out;
  const auto cut = [](int below, int above) {
    return step("tril", fmt::format(R"("self": "a", "diagonal": {})", above), "l") + ", " +
           step("triu", fmt::format(R"("self": "l", "diagonal": {})", -below), "u") + ", " +
           step("mul.Scalar", R"("self": "u", "other": 3.0)", "m") + ", ";
  };
  const auto left = step("mm", R"("self": "m", "mat2": "b")", "y"),
             right = step("mm", R"("self": "b", "mat2": "m")", "y");
  for (const auto& [below, above] : {std::pair(40, 70), {0, 33}, {-5, 60}})
    for (const auto& [name, product] : {std::pair("left", left), {"right", right}})
      for (const char* form : {"", ", factors=halves"})
        out.push_back({fmt::format("band_{}_{}_{}{}", name, below, above, form),
                       made("bands", tensor("a", "200, 200") + ", " + tensor("b", "200, 200"), "",
                            cut(below, above) + product, R"("y")"),
                       fmt::format("product_kernel(steps=3{}); tile_rows(group=0, rows=64); "
                                   "depth_parts(group=0, parts=1)",
                                   form),
                       *form == 0 ? 1 : 3, 3});
  out.push_back(
      {"wide_band",
       made("wide_band", tensor("a", "70, 300") + ", " + tensor("b", "300, 90"), "", cut(16, 100) + left, R"("y")"),
       "product_kernel(steps=3); depth_parts(group=0, parts=1)", 1, 3});
  return out;
}

TEST(ProductKernels, SkipWhatIsZeroBesideABand) {
  const auto all = cases_of_bands();
  const auto text_of = [&](const std::string& name) {
    const auto c = std::ranges::find(all, name, &product_case::name);
    const auto lowered = lower(c->what, *parse_schedule(c->schedule), for_cuda());
    return lowered ? lowered->checked.text.source : lowered.error().message;
  };
  EXPECT_THAT(text_of("band_left_40_70"), testing::HasSubstr("((first_row - 40) / 64) * 64"));
  EXPECT_THAT(text_of("band_left_40_70"), testing::HasSubstr("first_row + 134)"));
  EXPECT_THAT(text_of("band_right_0_33"), testing::HasSubstr("((first_column - 33) / 64) * 64"));
}

// Results of other types than the product's, which are stored one by one, and batches that one matrix is spread over.
std::vector<product_case> unusual_cases() {
  std::vector<product_case> out;
  const auto two = tensor("a", "64, 40") + ", " + tensor("b", "40, 64");
  const auto mm = step("mm", R"("self": "a", "mat2": "b")", "p");
  for (const char* factors : {"", ", factors=halves"}) {
    const int kernels = *factors == 0 ? 1 : 3;
    out.push_back(
        {fmt::format("flags{}", factors),
         made("flags", two, "", mm + ", " + step("gt.Scalar", R"("self": "p", "other": 0.25)", "y"), R"("y")"),
         fmt::format("fuse(steps=1); product_kernel(steps=0..1{})", factors), kernels});
    out.push_back({fmt::format("float64{}", factors),
                   made("doubles", two, "", mm + ", " + step("to.dtype", R"("self": "p", "dtype": "float64")", "y"),
                        R"("y", "p")"),
                   fmt::format("fuse(steps=1); product_kernel(steps=0..1{})", factors), kernels});
    const auto spread = step("expand", R"("self": "a", "size": [3, 72, 72])", "e");
    out.push_back(
        {fmt::format("spread_beside_a_triangle{}", factors),
         made("spread_beside_a_triangle", tensor("a", "72, 72") + ", " + triangle("b", "3, 72, 72", "lower_triangular"),
              "", spread + ", " + step("bmm", R"("self": "e", "mat2": "b")", "y"), R"("y")"),
         fmt::format("product_kernel(steps=1{})", factors), kernels});
    out.push_back({fmt::format("triangle_beside_a_spread_one{}", factors),
                   made("triangle_beside_a_spread_one",
                        tensor("a", "72, 72") + ", " + triangle("b", "3, 72, 72", "upper_triangular"), "",
                        spread + ", " + step("bmm", R"("self": "b", "mat2": "e")", "y"), R"("y")"),
                   fmt::format("product_kernel(steps=1{})", factors), kernels});
  }
  out.push_back({"both_kinds",
                 made("both_kinds", tensor("a", "70, 40") + ", " + tensor("b", "40, 64") + ", " + tensor("c", "64, 48"),
                      "", mm + ", " + step("mm", R"("self": "p", "mat2": "c")", "y"), R"("y")"),
                 "product_kernel(steps=0, factors=halves); product_kernel(steps=1)", 4});
  return out;
}

std::vector<product_case> half_cases(const std::string& type) {
  const auto t = [&](const std::string& name, const std::string& shape) { return tensor(name, shape, type); };
  const auto linear = [&](const std::string& name, int64_t rows, int64_t k, int64_t columns, const std::string& tuning,
                          int kernels) {
    return product_case{name,
                        made(name, t("x", fmt::format("{}, {}", rows, k)),
                             t("w", fmt::format("{}, {}", columns, k)) + ", " + t("b", std::to_string(columns)),
                             step("linear", R"("input": "x", "weight": "w", "bias": "b")", "h") + ", " +
                                 step("gelu", R"("self": "h")", "y"),
                             R"("y")"),
                        "fuse(steps=1); product_kernel(steps=0..1)" + tuning, kernels};
  };
  std::vector<product_case> out;
  out.push_back(linear("aligned_" + type, 64, 64, 64, "", 1));
  out.push_back(linear("pairs_" + type, 17, 42, 23, "", 1));
  out.push_back(linear("long_" + type, 33, 600, 40, "; depth_parts(group=0, parts=2)", 2));
  out.push_back(linear("large_tiles_" + type, 130, 72, 132,
                       "; tile_rows(group=0, rows=128); tile_columns(group=0, columns=128)", 1));
  out.push_back(one_step("mm_" + type, t("a", "40, 40") + ", " + t("b", "40, 56"),
                         step("mm", R"("self": "a", "mat2": "b")", "y"), 0));
  out.push_back(one_step("mm_pairs_" + type, t("a", "38, 34") + ", " + t("b", "34, 50"),
                         step("mm", R"("self": "a", "mat2": "b")", "y"), 0));
  out.push_back(one_step("transposed_left_" + type, t("a", "40, 48") + ", " + t("b", "40, 56"),
                         step("t", R"("self": "a")", "at") + ", " + step("mm", R"("self": "at", "mat2": "b")", "y"),
                         1));
  out.push_back(one_step("bmm_" + type, t("a", "3, 20, 40") + ", " + t("b", "3, 40, 24"),
                         step("bmm", R"("self": "a", "mat2": "b")", "y"), 0));
  return out;
}

TEST(ProductKernels, OfOddSizesInHalfTypesStayLibraryCalls) {
  const auto odd = one_step("odd", tensor("a", "38, 35", "float16") + ", " + tensor("b", "35, 50", "float16"),
                            step("mm", R"("self": "a", "mat2": "b")", "y"), 0);
  EXPECT_THAT(refusal_of(odd.what, odd.schedule), testing::HasSubstr("cannot be copied in pairs"));
}

TEST(ProductKernels, AreAcceptedByTheGates) {
  auto all = cases();
  for (const char* type : {"float16", "bfloat16"})
    for (auto* const of_type : {half_cases, cases_of_warpgroups})
      std::ranges::move(of_type(type), std::back_inserter(all));
  std::ranges::move(cases_of_halves(), std::back_inserter(all));
  std::ranges::move(cases_of_triangles(), std::back_inserter(all));
  std::ranges::move(cases_of_bands(), std::back_inserter(all));
  std::ranges::move(cases_of_depth_of_warps(), std::back_inserter(all));
  std::ranges::move(cases_of_thread_sums(), std::back_inserter(all));
  std::ranges::move(unusual_cases(), std::back_inserter(all));
  expect_accepted(all);
}

TEST(ProductKernels, OfOtherFormsCompileForAnH100) {
  auto all = cases_of_halves();
  std::ranges::move(unusual_cases(), std::back_inserter(all));
  std::ranges::move(cases_of_depth_of_warps(), std::back_inserter(all));
  std::ranges::move(cases_of_thread_sums(), std::back_inserter(all));
  for (const char* type : {"float16", "bfloat16"})
    std::ranges::move(cases_of_warpgroups(type), std::back_inserter(all));
  expect_compiled(all);
}

}  // namespace
}  // namespace cudal1::test
