// What reduces rows behind a product, in its kernel: rows that a tile holds, or those of a cluster, over the batch,
// pools over features, slices.
#include <algorithm>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/product_cases.hpp"

namespace cudal1::test {
namespace {

// A linear layer with an operator over rows after it.
struct row_case {
  std::string name;
  int rows = 0, k = 0, columns = 0;
  std::string after;  // steps from "h", 1 to `last`
  int last = 1;
  std::string form = {}, tuning = {}, outputs = R"("y")", type = "float32";
  int kernels = 1;
};

product_case case_of(const row_case& c) {
  const auto t = [&](const char* name, const std::string& shape) { return tensor(name, shape, c.type); };
  const std::string columns = std::to_string(c.columns);
  product_case out;
  out.name = fmt::format("{}_{}_{}_{}_{}{}", c.name, c.rows, c.k, columns, c.type, c.form);
  out.what =
      made("rows", t("x", fmt::format("{}, {}", c.rows, c.k)) + ", " + t("r", fmt::format("{}, {}", c.rows, columns)),
           t("w", fmt::format("{}, {}", columns, c.k)) + ", " + t("b", columns) + ", " + t("g", columns),
           step("linear", R"("input": "x", "weight": "w", "bias": "b")", "h") + ", " + c.after, c.outputs);
  out.schedule = fmt::format("row_kernel(steps={}); product_kernel(steps=0..{}{}){}",
                             c.last == 1 ? "1" : fmt::format("1..{}", c.last), c.last, c.form, c.tuning);
  out.kernels = c.kernels;
  return out;
}

// Softmax, norms and reductions of rows that a block holds, in one kernel with the product: rows as long as a tile,
// shorter and longer ones, several in one, rows and tiles that do not exist, every form, and values per row.
std::vector<product_case> cases_of_rows() {
  std::vector<product_case> out;
  const auto add = [&](const row_case& c) { out.push_back(case_of(c)); };
  const auto softmax = step("softmax.int", R"("self": "h", "dim": -1)", "y");
  const auto group_norm = [](int groups) {
    return step("group_norm",
                fmt::format(R"("input": "h", "num_groups": {}, "weight": "g", "bias": "b", "eps": 1e-05)", groups),
                "n") +
           ", " + step("add.Tensor", R"("self": "n", "other": "r")", "y");
  };
  const std::string warps = ", depth=warps", one_part = "; depth_parts(group=0, parts=1)";
  const auto tile = [&](const std::string& size) { return "; tile_" + size + one_part; };
  const auto columns_32 = tile("columns(group=0, columns=32)");
  for (const auto& form : {std::string(), warps}) {
    add({"softmax", 30, 64, 32, softmax, 1, form, one_part});
    add({"softmax", 19, 100, 10, softmax, 1, form, one_part});
    add({"softmax", 1, 300, 23, softmax, 1, form, one_part});
    add({"groups_of_32", 45, 64, 96, group_norm(3), 2, form, columns_32});
    add({"groups_of_16", 33, 68, 80, group_norm(5), 2, form, columns_32});
    add({.name = "groups_of_5",  // which cut a tile's last one
         .rows = 33,
         .k = 68,
         .columns = 40,
         .after = group_norm(8),
         .last = 2,
         .form = form,
         .tuning = columns_32,
         .kernels = 2});
    for (const char* type : {"float16", "bfloat16"})
      add({"softmax", 35, 72, 32, softmax, 1, form, one_part, R"("y")", type});
  }
  for (const int rows : {16, 32, 64, 128}) {
    const auto size = [&](int columns) {
      return tile(fmt::format("rows(group=0, rows={}); tile_columns(group=0, columns={})", rows, columns));
    };
    add({fmt::format("softmax_{}", rows), 150, 40, 100, softmax, 1, "", size(128)});
    add({fmt::format("groups_{}", rows), 150, 40, 192, group_norm(3), 2, "", size(64)});
    add({fmt::format("groups_of_8_{}", rows), 150, 40, 96, group_norm(12), 2, "", size(64)});  // several rounds
    add({fmt::format("groups_of_128_{}", rows), 150, 40, 256, group_norm(2), 2, "", size(128)});
  }
  add({"layer_norm", 21, 48, 64,
       step("layer_norm", R"("input": "h", "normalized_shape": [64], "weight": "g", "bias": "b", "eps": 1e-05)", "n") +
           ", " + step("gelu", R"("self": "n")", "y"),
       2, "", tile("columns(group=0, columns=64)"), R"("y", "h")"});
  add({"row_values", 37, 64, 24,
       step("mul.Tensor", R"("self": "h", "other": "h")", "m") + ", " +
           step("sum.dim_IntList", R"("self": "m", "dim": [1], "keepdim": true)", "s") + ", " +
           step("sqrt", R"("self": "s")", "q") + ", " + step("div.Tensor", R"("self": "h", "other": "q")", "y"),
       4, warps, "", R"("y", "s")"});
  add({"largest", 37, 64, 24, step("amax", R"("self": "h", "dim": [1])", "y"), 1, warps});
  out.push_back({"softmax_of_batches",
                 made("softmax_of_batches", tensor("q", "3, 20, 36") + ", " + tensor("k", "3, 24, 36"), "",
                      step("transpose.int", R"("self": "k", "dim0": -2, "dim1": -1)", "kt") + ", " +
                          step("bmm", R"("self": "q", "mat2": "kt")", "h") + ", " + softmax,
                      R"("y")"),
                 "row_kernel(steps=2); product_kernel(steps=1..2, depth=warps)", 1});
  return out;
}

// Rows that no tile holds, but those of a cluster: the last tile of a row may be partial, a cluster may have a number
// of blocks that does not divide the rows of a tile, several products, batches, and what follows in several passes.
std::vector<product_case> cases_of_clusters() {
  std::vector<product_case> out;
  const auto add = [&](row_case c) {
    c.form += ", rows=clusters";
    out.push_back(case_of(c));
  };
  const auto softmax = step("softmax.int", R"("self": "h", "dim": -1)", "y");
  const auto norm = [](int columns) {
    return step("layer_norm",
                fmt::format(R"("input": "h", "normalized_shape": [{}], "weight": "g", "bias": "b", "eps": 1e-05)",
                            columns),
                "n") +
           ", " + step("add.Tensor", R"("self": "n", "other": "r")", "y");
  };
  const std::string warps = ", depth=warps", halves = ", factors=halves", warpgroups = ", by=warpgroups";
  const auto columns = [](int n) { return fmt::format("; tile_columns(group=0, columns={})", n); };
  const auto tile = [](int rows, int n) {
    return fmt::format("; tile_rows(group=0, rows={}); tile_columns(group=0, columns={})", rows, n);
  };
  for (const int n : {64, 96, 100, 256}) {
    add({"softmax", 35, 68, n, softmax, 1, warps, columns(32)});
    add({"softmax", 35, 68, n, softmax, 1, "", columns(32)});
    add({"norm", 35, 68, n, norm(n), 2, warps, columns(32)});
  }
  add({"norm", 21, 72, 32, norm(32), 2, warps, tile(16, 16)});
  for (const int rows : {16, 32, 64, 128})
    add({fmt::format("norm_{}", rows), 150, 40, 384, norm(384), 2, "", tile(rows, 128)});
  add({"norm", 150, 72, 400, norm(400), 2, halves, tile(64, 64), R"("y")", "float32", 2});
  add({"norm", 150, 72, 512, norm(512), 2, halves, tile(128, 128), R"("y", "h")", "float32", 2});
  for (const char* type : {"float16", "bfloat16"}) {
    add({"norm", 35, 72, 136, norm(136), 2, warps, columns(32), R"("y")", type});
    add({"norm", 35, 72, 136, norm(136), 2, "", columns(64), R"("y")", type});
    add({"norm", 150, 136, 400, norm(400), 2, warpgroups, tile(64, 64), R"("y")", type});
    add({"norm", 150, 136, 512, norm(512), 2, warpgroups, tile(128, 128), R"("y")", type});
  }
  add({"row_values", 37, 64, 88,
       step("mul.Tensor", R"("self": "h", "other": "h")", "m") + ", " +
           step("sum.dim_IntList", R"("self": "m", "dim": [1], "keepdim": true)", "s") + ", " +
           step("sqrt", R"("self": "s")", "q") + ", " + step("div.Tensor", R"("self": "h", "other": "q")", "y"),
       4, warps, columns(32), R"("y", "s")"});
  add({"largest", 37, 64, 88, step("amax", R"("self": "h", "dim": [1])", "y"), 1, warps, columns(32)});
  const auto layer = [](const char* weight, const char* result) {
    return step("linear", fmt::format(R"("input": "x", "weight": "{}")", weight), result);
  };
  out.push_back({"gated_softmax_of_clusters",
                 made("gated_softmax", tensor("x", "21, 48"), tensor("v", "44, 48") + ", " + tensor("w", "44, 48"),
                      layer("v", "g") + ", " + layer("w", "u") + ", " + step("silu", R"("self": "g")", "s") + ", " +
                          step("mul.Tensor", R"("self": "s", "other": "u")", "m") + ", " +
                          step("softmax.int", R"("self": "m", "dim": -1)", "y"),
                      R"("y")"),
                 "row_kernel(steps=2..4); product_kernel(steps=0..4, depth=warps, rows=clusters)"});
  out.push_back({"softmax_of_batches_of_clusters",
                 made("softmax_of_batches", tensor("q", "3, 20, 36") + ", " + tensor("k", "3, 70, 36"), "",
                      step("transpose.int", R"("self": "k", "dim0": -2, "dim1": -1)", "kt") + ", " +
                          step("bmm", R"("self": "q", "mat2": "kt")", "h") + ", " + softmax,
                      R"("y")"),
                 "row_kernel(steps=2); product_kernel(steps=1..2, depth=warps, rows=clusters)"});
  return out;
}

// Norms over the batch: A and B change places, so that a tile has whole columns of the product.
std::vector<product_case> cases_over_the_batch() {
  std::vector<product_case> out;
  const auto batch_norm = [](const std::string& result) {
    return step("batch_norm",
                R"("input": "h", "weight": "g", "bias": "b", "running_mean": null, "running_var": null, )"
                R"("training": true, "momentum": 0.1, "eps": 1e-05, "cudnn_enabled": false)",
                result);
  };
  const auto add = [&](const std::string& name, int rows, int k, int columns, const std::string& how, int kernels = 1) {
    const auto n = std::to_string(columns);
    out.push_back({name,
                   made(name, tensor("x", fmt::format("{}, {}", rows, k)),
                        tensor("w", fmt::format("{}, {}", columns, k)) + ", " + tensor("g", n) + ", " + tensor("b", n),
                        step("linear", R"("input": "x", "weight": "w", "bias": "b")", "h") + ", " + batch_norm("n") +
                            ", " + step("gelu", R"("self": "n")", "y"),
                        R"("y")"),
                   "row_kernel(steps=1..2); product_kernel(steps=0..2" + how, kernels});
  };
  add("batch_in_a_tile", 30, 64, 70, ", depth=warps)");
  add("batch_in_tiles", 100, 40, 70, "); tile_columns(group=0, columns=128); depth_parts(group=0, parts=1)");
  add("batch_of_threads", 30, 10, 70, ", by=threads)");
  add("batch_in_a_cluster", 128, 64, 70, ", depth=warps, rows=clusters)");
  add("batch_in_a_partial_cluster", 90, 68, 33, ", depth=warps, rows=clusters)");
  add("batch_in_a_cluster_of_tiles", 300, 36, 48, ", rows=clusters); tile_columns(group=0, columns=64)");
  add("batch_in_two_kernels", 300, 36, 48, ")", 2);
  add("batch_of_halves", 100, 40, 70, ", factors=halves)", 3);
  out.push_back({"softmax_of_columns_of_a_triangle",
                 made("columns_of_a_triangle", tensor("x", "100, 128"), triangle("w", "128, 128", "lower_triangular"),
                      step("linear", R"("input": "x", "weight": "w")", "h") + ", " +
                          step("softmax.int", R"("self": "h", "dim": 0)", "y"),
                      R"("y")"),
                 "row_kernel(steps=1); product_kernel(steps=0..1, rows=clusters); tile_columns(group=0, columns=32)"});
  return out;
}

// The largest or the average of neighbouring features, seen through views or not: alone, with what follows it, in rows,
// with features that no window has.
std::vector<product_case> cases_of_pools() {
  std::vector<product_case> out;
  const auto pool = [](const std::string& how, int size, const char* from, const char* to) {
    return step(how + "_pool1d", fmt::format(R"("self": "{}", "kernel_size": [{}])", from, size), to);
  };
  const auto viewed = [&](const std::string& how, int size) {
    return step("unsqueeze", R"("self": "h", "dim": 1)", "v") + ", " + pool(how, size, "v", "p") + ", " +
           step("squeeze.dim", R"("self": "p", "dim": 1)", "q");
  };
  const auto add = [&](const std::string& name, int rows, int k, int columns, const std::string& after, int last,
                       const std::string& groups, const std::string& form, const std::string& type = "float32",
                       int kernels = 1) {
    out.push_back(
        {name + form + type,
         made("pools", tensor("x", fmt::format("{}, {}", rows, k), type),
              tensor("w", fmt::format("{}, {}", columns, k), type) + ", " + tensor("b", std::to_string(columns), type),
              step("linear", R"("input": "x", "weight": "w", "bias": "b")", "h") + ", " + after, R"("y")"),
         fmt::format("{}product_kernel(steps=0..{}{})", groups, last, form), kernels});
  };
  const auto summed = ", " + step("sum.dim_IntList", R"("self": "q", "dim": [1])", "s") + ", " +
                      step("mul.Scalar", R"("self": "s", "other": 0.5)", "y");
  const auto activated =
      ", " + step("gelu", R"("self": "q")", "g") + ", " + step("amax", R"("self": "g", "dim": [1])", "y");
  for (const char* form : {"", ", depth=warps", ", by=threads"}) {
    add("max_sum", 35, 12, 5, viewed("max", 2) + summed, 5, "row_kernel(steps=4..5); ", form);
    add("average_gelu_max", 35, 48, 32, viewed("avg", 4) + activated, 5, "row_kernel(steps=4..5); ", form);
    add("max_alone", 21, 44, 43, pool("max", 2, "h", "y"), 1, "", form);
    for (const char* type : {"float16", "bfloat16"})
      add("max_sum", 35, 48, 30, viewed("max", 2) + summed, 5, "row_kernel(steps=4..5); ", form, type);
  }
  add("max_gelu", 70, 80, 150, pool("max", 2, "h", "p") + ", " + step("gelu", R"("self": "p")", "y"), 2,
      "fuse(steps=2); ", ", factors=halves", "float32", 2);
  add("max_sum_of_clusters", 21, 48, 150, viewed("max", 2) + summed, 5, "row_kernel(steps=4..5); ",
      ", depth=warps, rows=clusters");
  add("pool_of_its_own_kernel", 35, 48, 40, viewed("max", 2) + summed, 5,
      "row_kernel(steps=2); row_kernel(steps=4..5); ", "");
  // Of a triangle, each part has other columns.
  out.push_back(
      {"pool_of_a_triangle",
       made("pool_of_a_triangle", tensor("x", "40, 200"), triangle("w", "200, 200", "lower_triangular"),
            step("linear", R"("input": "x", "weight": "w")", "h") + ", " + pool("max", 2, "h", "y"), R"("y")"),
       "product_kernel(steps=0..1); tile_columns(group=0, columns=32)"});
  return out;
}

// Slices of one layer with rows behind them.
std::vector<product_case> cases_of_slices_in_rows() {
  std::vector<product_case> out;
  const std::string chunk =
      R"({"aten": "aten::chunk", "args": {"self": "h", "chunks": 2, "dim": -1}, "out": ["u", "g"]})";
  for (const auto& [form, columns] : {std::pair("", 30), {", depth=warps", 13}, {", depth=warps, rows=clusters", 30}}) {
    const auto norm =
        fmt::format(R"("input": "m", "normalized_shape": [{}], "weight": null, "bias": null, "eps": 1e-05)", columns);
    out.push_back(
        {fmt::format("slices_in_rows{}", form),
         made("slices_in_rows", tensor("x", "21, 48"), tensor("w", fmt::format("{}, 48", 2 * columns)),
              step("linear", R"("input": "x", "weight": "w")", "h") + ", " + chunk + ", " +
                  step("sigmoid", R"("self": "g")", "s") + ", " +
                  step("mul.Tensor", R"("self": "s", "other": "u")", "m") + ", " + step("layer_norm", norm, "y"),
              R"("y")"),
         fmt::format("row_kernel(steps=2..4); product_kernel(steps=0..4{})", form)});
  }
  out.push_back({"slices_of_a_triangle",
                 made("slices_of_a_triangle", tensor("x", "40, 200"), triangle("w", "200, 200", "lower_triangular"),
                      step("linear", R"("input": "x", "weight": "w")", "h") + ", " + chunk + ", " +
                          step("mul.Tensor", R"("self": "g", "other": "u")", "y"),
                      R"("y")"),
                 "fuse(steps=2); product_kernel(steps=0..2); tile_columns(group=0, columns=32)"});
  return out;
}

std::vector<product_case> all_cases() {
  auto out = cases_of_rows();
  for (auto* const more : {cases_of_clusters, cases_over_the_batch, cases_of_pools, cases_of_slices_in_rows})
    std::ranges::move(more(), std::back_inserter(out));
  return out;
}

TEST(RowsOfProducts, AreAcceptedByTheGates) {
  expect_accepted(all_cases());
}

TEST(RowsOfProducts, CompileForAnH100) {
  expect_compiled(all_cases());
}

TEST(RowsOfProducts, SlicesOfBAreInMemory) {
  const auto gate = step("sigmoid", R"("self": "w")", "f") + ", " +
                    step("linear", R"("input": "x", "weight": "f")", "h") + ", " +
                    R"({"aten": "aten::chunk", "args": {"self": "h", "chunks": 2, "dim": -1}, "out": ["u", "g"]})" +
                    ", " + step("mul.Tensor", R"("self": "g", "other": "u")", "y");
  const auto what = made("made_slices", tensor("x", "40, 32") + ", " + tensor("w", "64, 32"), "", gate, R"("y")");
  EXPECT_THAT(refusal_of(what, "fuse(steps=0); fuse(steps=3); product_kernel(steps=0..3)"),
              testing::HasSubstr("f is not in memory: a kernel computes only one of A and B"));
}

// Why the layer's rows are not held by a cluster; "" where they are.
std::string refusal(int rows, int columns, const std::string& after, const std::string& form) {
  const auto c = case_of({"refused", rows, 64, columns, after, 1, form + ", rows=clusters"});
  return refusal_of(c.what, c.schedule);
}

TEST(RowsOfProducts, OfClustersAreOfAFewTiles) {
  const auto softmax = step("softmax.int", R"("self": "h", "dim": -1)", "y");
  EXPECT_EQ(refusal(32, 256, softmax, ", depth=warps"), "");
  EXPECT_EQ(refusal(32, 1024, softmax, ""), "");
  const auto none = testing::HasSubstr("no cluster's tiles hold the rows");
  EXPECT_THAT(refusal(32, 257, softmax, ", depth=warps"), none);
  EXPECT_THAT(refusal(32, 1025, softmax, ""), none);
  EXPECT_THAT(refusal(32, 64, step("cumsum", R"("self": "h", "dim": 1)", "y"), ""), none);
  EXPECT_THAT(refusal(32, 64, softmax, ", by=threads"), none);
}

}  // namespace
}  // namespace cudal1::test
