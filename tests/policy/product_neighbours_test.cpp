// What shares a kernel with a product: other products of its A, what is in front of it, another product.
#include <algorithm>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/product_cases.hpp"

namespace cudal1::test {
namespace {

// Several products of one A in a kernel: each form, odd sizes, tiles of which some columns do not exist, both
// orientations of the Bs, batches, rows.
std::vector<product_case> cases_of_several_products() {
  std::vector<product_case> out;
  const auto gate =
      step("silu", R"("self": "g")", "s") + ", " + step("mul.Tensor", R"("self": "s", "other": "u")", "y");
  const auto layer = [](const char* weight, const char* result) {
    return step("linear", fmt::format(R"("input": "x", "weight": "{}")", weight), result);
  };
  const auto gated = [&](const std::string& form, int64_t rows, int64_t k, int64_t columns, int kernels = 1,
                         const std::string& type = "float32", const std::string& tuning = "") {
    const auto weight = fmt::format("{}, {}", columns, k);
    const auto name = fmt::format("gated_{}_{}_{}_{}_{}", form.substr(form.find('=') + 1), rows, k, columns, type);
    out.push_back({name,
                   made(name, tensor("x", fmt::format("{}, {}", rows, k), type),
                        tensor("v", weight, type) + ", " + tensor("w", weight, type),
                        layer("v", "g") + ", " + layer("w", "u") + ", " + gate, R"("y")"),
                   "fuse(steps=2..3); product_kernel(steps=0..3" + (form.empty() ? "" : ", " + form) + ")" + tuning,
                   kernels});
  };
  for (const char* form : {"", "depth=warps", "by=threads"}) {
    gated(form, 33, 48, 40);
    gated(form, 5, 64, 23);
    for (const char* type : {"float16", "bfloat16"})
      gated(form, 35, 48, 44, 1, type);
  }
  gated("factors=halves", 70, 80, 150, 2);  // the weights are split at set-up
  gated("factors=halves", 130, 36, 200, 2, "float32",
        "; tile_rows(group=0, rows=128); tile_columns(group=0, columns=128)");
  gated("by=warpgroups", 70, 80, 150, 1, "bfloat16");
  gated("by=warpgroups", 200, 136, 200, 1, "float16",
        "; tile_rows(group=0, rows=128); tile_columns(group=0, columns=128)");
  for (const int columns : {32, 64, 128})
    gated("", 70, 36, 150, 1, "float32",
          fmt::format("; tile_rows(group=0, rows=32); tile_columns(group=0, columns={})", columns));
  const auto mm = [](const char* b, const char* result) {
    return step("matmul", fmt::format(R"("self": "x", "other": "{}")", b), result);
  };
  for (const char* form : {"", ", by=warpgroups", ", factors=halves"}) {
    const std::string type = std::string(form) == ", by=warpgroups" ? "bfloat16" : "float32";
    out.push_back(
        {fmt::format("gated_columns{}", form),
         made("gated_columns",
              tensor("x", "70, 72", type) + ", " + tensor("v", "72, 136", type) + ", " + tensor("w", "72, 136", type),
              "", mm("v", "g") + ", " + mm("w", "u") + ", " + gate, R"("y")"),
         fmt::format("fuse(steps=2..3); product_kernel(steps=0..3{})", form), type == "float32" && *form != 0 ? 4 : 1});
  }
  out.push_back({"gated_batches",
                 made("gated_batches",
                      tensor("x", "3, 20, 36") + ", " + tensor("v", "3, 36, 24") + ", " + tensor("w", "3, 36, 24"), "",
                      step("bmm", R"("self": "x", "mat2": "v")", "g") + ", " +
                          step("bmm", R"("self": "x", "mat2": "w")", "u") + ", " + gate,
                      R"("y")"),
                 "fuse(steps=2..3); product_kernel(steps=0..3)"});
  // One layer whose slices are the gate and the value: by chunk, split and slices, with a bias.
  const std::string chunk =
      R"({"aten": "aten::chunk", "args": {"self": "h", "chunks": 2, "dim": -1}, "out": ["u", "g"]})";
  const auto slice = [](int start, const char* result) {
    return step("slice.Tensor", fmt::format(R"("self": "h", "dim": 1, "start": {}, "end": {})", start, start + 40),
                result);
  };
  for (const auto& [slices, first] : {std::pair(chunk, 2), {slice(40, "g") + ", " + slice(0, "u"), 3}})
    for (const char* form : {"", ", depth=warps", ", by=threads", ", factors=halves"})
      out.push_back(
          {fmt::format("slices{}_{}", form, first),
           made("slices", tensor("x", "21, 48"), tensor("w", "80, 48") + ", " + tensor("b", "80"),
                step("linear", R"("input": "x", "weight": "w", "bias": "b")", "h") + ", " + slices + ", " + gate,
                R"("y")"),
           fmt::format("fuse(steps={}..{}); product_kernel(steps=0..{}{})", first, first + 1, first + 1, form),
           std::string(form) == ", factors=halves" ? 2 : 1});
  const auto four_weights = [](const std::string& type) {
    return tensor("a", "40, 48", type) + ", " + tensor("b", "40, 48", type) + ", " + tensor("c", "40, 48", type) +
           ", " + tensor("d", "40, 48", type);
  };
  const auto cell = layer("a", "i") + ", " + layer("b", "f") + ", " + layer("c", "g") + ", " + layer("d", "o") + ", " +
                    step("sigmoid", R"("self": "i")", "si") + ", " + step("tanh", R"("self": "g")", "tg") + ", " +
                    step("mul.Tensor", R"("self": "si", "other": "tg")", "m") + ", " +
                    step("mul.Tensor", R"("self": "f", "other": "o")", "n") + ", " +
                    step("add.Tensor", R"("self": "m", "other": "n")", "y");
  for (const char* form : {"", ", depth=warps", ", by=threads"})
    out.push_back({fmt::format("cell{}", form),
                   made("cell", tensor("x", "21, 48"), four_weights("float32"), cell, R"("y", "f")"),
                   fmt::format("fuse(steps=4..8); product_kernel(steps=0..8{})", form)});
  for (const char* form : {"", ", depth=warps", ", by=threads"})
    out.push_back({fmt::format("gated_softmax{}", form),
                   made("gated_softmax", tensor("x", "21, 48"), tensor("v", "13, 48") + ", " + tensor("w", "13, 48"),
                        layer("v", "g") + ", " + layer("w", "u") + ", " + step("silu", R"("self": "g")", "s") + ", " +
                            step("mul.Tensor", R"("self": "s", "other": "u")", "m") + ", " +
                            step("softmax.int", R"("self": "m", "dim": -1)", "y"),
                        R"("y")"),
                   fmt::format("row_kernel(steps=2..4); product_kernel(steps=0..4{})", form)});
  return out;
}

// What is in front of a product, in its kernel: operators on A, values per row and per index along k, rows of a table,
// what is behind it as well.
std::vector<product_case> cases_in_front() {
  std::vector<product_case> out;
  // A sigmoid is not 0 where the operand has no element.
  const auto front =
      step("sigmoid", R"("self": "x")", "e") + ", " + step("mul.Tensor", R"("self": "e", "other": "s")", "f");
  const auto layer = step("linear", R"("input": "f", "weight": "w", "bias": "b")", "h");
  const auto activation = step("relu", R"("self": "h")", "y");
  const auto add = [&](const std::string& form, const std::string& scale, int64_t rows, int64_t k, int64_t columns,
                       int kernels = 1, const std::string& type = "float32", const std::string& tuning = "") {
    const auto name = fmt::format("front_{}_{}_{}_{}_{}_{}{}", form.substr(form.find('=') + 1), scale.size(), rows, k,
                                  columns, type, tuning.size());
    out.push_back(
        {name,
         made(name, tensor("x", fmt::format("{}, {}", rows, k), type) + ", " + tensor("s", scale, type),
              tensor("w", fmt::format("{}, {}", columns, k), type) + ", " + tensor("b", std::to_string(columns), type),
              front + ", " + layer + ", " + activation, R"("y")"),
         "fuse(steps=0..1); fuse(steps=3); product_kernel(steps=0..3" + (form.empty() ? "" : ", " + form) + ")" +
             tuning,
         kernels});
  };
  for (const char* form : {"", "depth=warps", "by=threads"})
    for (const char* type : {"float32", "float16", "bfloat16"}) {
      add(form, "48", 33, 48, 40, 1, type);     // per index along k
      add(form, "21, 1", 21, 40, 23, 1, type);  // per row
    }
  for (const char* scale : {"70, 1", "84", "70, 84"})
    add("factors=halves", scale, 70, 84, 150, 2);
  add("by=threads", "33, 20", 33, 20, 40);
  add("", "250", 33, 250, 36, 2, "float32", "; depth_parts(group=1, parts=3)");
  for (const int rows : {16, 64, 128})
    add("", "40", 130, 40, 132, 1, "float32",
        fmt::format("; tile_rows(group=1, rows={}); tile_columns(group=1, columns=64); depth_parts(group=1, parts=1)",
                    rows));
  const auto numbers = [](const char* shape, int64_t most) {
    return fmt::format(
        R"({{"name": "n", "dtype": "int64", "shape": [{}], "draw": {{"distribution": "integer", "low": 0, "high": {}}}}})",
        shape, most);
  };
  const auto lookup = step("embedding", R"("weight": "t", "indices": "n")", "f");
  for (const char* form : {"", "depth=warps", "by=threads", "factors=halves", "by=warpgroups"}) {
    const std::string type = std::string(form) == "by=warpgroups" ? "bfloat16" : "float32";
    const std::string how = *form == 0 ? "" : fmt::format(", {}", form);
    const int kernels = std::string(form) == "factors=halves" ? 2 : 1;
    const auto weights =
        tensor("t", "30, 48", type) + ", " + tensor("w", "72, 48", type) + ", " + tensor("b", "72", type);
    out.push_back(
        {fmt::format("chosen_rows{}", how),
         made("chosen_rows", numbers("5, 14", 30), weights, lookup + ", " + layer + ", " + activation, R"("y")"),
         fmt::format("fuse(steps=0); fuse(steps=2); product_kernel(steps=0..2{})", how), kernels});
    if (type != "float32") continue;
    out.push_back({fmt::format("scaled_chosen_rows{}", how),
                   made("scaled_chosen_rows", numbers("70", 30), weights,
                        step("embedding", R"("weight": "t", "indices": "n")", "g") + ", " +
                            step("mul.Scalar", R"("self": "g", "other": 7.0)", "f") + ", " + layer,
                        R"("h")"),
                   fmt::format("fuse(steps=0..1); product_kernel(steps=0..2{})", how), kernels});
  }
  const auto gate =
      step("silu", R"("self": "g")", "q") + ", " + step("mul.Tensor", R"("self": "q", "other": "u")", "y");
  for (const char* form : {"", ", depth=warps", ", factors=halves"})
    out.push_back(
        {fmt::format("front_of_two{}", form),
         made("front_of_two", tensor("x", "3, 12, 48"), tensor("v", "40, 48") + ", " + tensor("w", "40, 48"),
              step("sigmoid", R"("self": "x")", "f") + ", " + step("linear", R"("input": "f", "weight": "v")", "g") +
                  ", " + step("linear", R"("input": "f", "weight": "w")", "u") + ", " + gate,
              R"("y")"),
         fmt::format("fuse(steps=0); fuse(steps=3..4); product_kernel(steps=0..4{})", form),
         *form == 0 || form[2] == 'd' ? 1 : 2});
  out.push_back(
      {"front_of_batches",
       made("front_of_batches",
            tensor("x", "3, 20, 36") + ", " + tensor("s", "3, 1, 1") + ", " + tensor("k", "3, 36, 24"), "",
            step("tanh", R"("self": "x")", "e") + ", " + step("mul.Tensor", R"("self": "e", "other": "s")", "f") +
                ", " + step("bmm", R"("self": "f", "mat2": "k")", "y"),
            R"("y")"),
       "fuse(steps=0..1); product_kernel(steps=0..2)"});
  const auto turned =
      step("sigmoid", R"("self": "k")", "e") + ", " + step("mul.Tensor", R"("self": "e", "other": "s")", "f") + ", ";
  for (const char* form : {"", ", by=threads", ", factors=halves"})
    out.push_back({fmt::format("front_of_the_right_factor{}", form),
                   made("front_of_the_right_factor",
                        tensor("x", "30, 36") + ", " + tensor("k", "36, 44") + ", " + tensor("s", "44"), "",
                        turned + step("mm", R"("self": "x", "mat2": "f")", "h") + ", " + activation, R"("y")"),
                   fmt::format("fuse(steps=0..1); fuse(steps=3); product_kernel(steps=0..3{})", form),
                   form[0] != 0 && form[2] == 'f' ? 3 : 1});
  for (const char* form : {"", ", depth=warps", ", by=threads"})
    out.push_back({fmt::format("front_of_a_weight{}", form),
                   made("front_of_a_weight", tensor("x", "30, 48") + ", " + tensor("k", "44, 48"), tensor("s", "44, 1"),
                        turned + step("linear", R"("input": "x", "weight": "f")", "h") + ", " + activation, R"("y")"),
                   fmt::format("fuse(steps=0..1); fuse(steps=3); product_kernel(steps=0..3{})", form)});
  out.push_back({"front_of_the_right_factors_of_batches",
                 made("front_of_the_right_factors_of_batches",
                      tensor("x", "3, 20, 36") + ", " + tensor("k", "3, 36, 24") + ", " + tensor("s", "3, 1, 1"), "",
                      turned + step("bmm", R"("self": "x", "mat2": "f")", "y"), R"("y")"),
                 "fuse(steps=0..1); product_kernel(steps=0..2)"});
  out.push_back({"product_as_the_right_factor",
                 made("product_as_the_right_factor",
                      tensor("x", "30, 24") + ", " + tensor("p", "24, 10") + ", " + tensor("q", "10, 40"), "",
                      step("mm", R"("self": "p", "mat2": "q")", "h") + ", " + step("relu", R"("self": "h")", "f") +
                          ", " + step("mm", R"("self": "x", "mat2": "f")", "y"),
                      R"("y")"),
                 "fuse(steps=1); product_kernel(steps=0..2, by=threads)"});
  out.push_back(
      {"front_of_softmax",
       made("front_of_softmax", tensor("x", "30, 64"), tensor("w", "32, 64"),
            step("sigmoid", R"("self": "x")", "f") + ", " + step("linear", R"("input": "f", "weight": "w")", "h") +
                ", " + step("softmax.int", R"("self": "h", "dim": -1)", "y"),
            R"("y")"),
       "fuse(steps=0); row_kernel(steps=2); product_kernel(steps=0..2, depth=warps)"});
  return out;
}

// Two products in a kernel of thread sums, the first one with what follows it in front of the second one.
std::vector<product_case> cases_of_chains() {
  std::vector<product_case> out;
  const auto layers = [](const std::string& between, const char* from, const std::string& after) {
    return step("linear", R"("input": "x", "weight": "v", "bias": "b")", "h") + ", " + between +
           step("linear", fmt::format(R"("input": "{}", "weight": "w")", from), "z") + after;
  };
  const auto add = [&](const std::string& name, const std::string& rows, int k, int inner, int columns,
                       const std::string& steps, const std::string& schedule, const std::string& type = "float32") {
    out.push_back(
        {name + type,
         made(name, tensor("x", fmt::format("{}, {}", rows, k), type),
              tensor("v", fmt::format("{}, {}", inner, k), type) + ", " + tensor("b", std::to_string(inner), type) +
                  ", " + tensor("w", fmt::format("{}, {}", columns, inner), type),
              steps, R"("y")"),
         schedule + ", by=threads)"});
  };
  const auto sigmoid = step("sigmoid", R"("self": "h")", "f") + ", ";
  const auto relu = ", " + step("relu", R"("self": "z")", "y");
  const auto largest = ", " + step("logsumexp", R"("self": "z", "dim": [1])", "y");
  for (const char* type : {"float32", "bfloat16", "float16"})
    add("sigmoid_logsumexp_", "35", 10, 20, 5, layers(sigmoid, "f", largest),
        "fuse(steps=1); row_kernel(steps=3); product_kernel(steps=0..3", type);
  add("relu_behind_", "33", 64, 64, 70, layers(sigmoid, "f", relu),
      "fuse(steps=1); fuse(steps=3); product_kernel(steps=0..3");
  add("of_batches_", "3, 7", 11, 13, 17, layers(sigmoid, "f", relu),
      "fuse(steps=1); fuse(steps=3); product_kernel(steps=0..3");
  add("nothing_between_", "50", 9, 33, 3, layers("", "h", relu), "fuse(steps=2); product_kernel(steps=0..2");
  add("with_its_input_", "40", 24, 24, 30,
      layers(step("add.Tensor", R"("self": "h", "other": "x")", "f") + ", ", "f", relu),
      "fuse(steps=1); fuse(steps=3); product_kernel(steps=0..3");
  out.push_back({"of_matrices",
                 made("of_matrices",
                      tensor("q", "3, 20, 12") + ", " + tensor("k", "3, 12, 24") + ", " + tensor("v", "3, 24, 10"), "",
                      step("bmm", R"("self": "q", "mat2": "k")", "h") + ", " + sigmoid +
                          step("bmm", R"("self": "f", "mat2": "v")", "y"),
                      R"("y")"),
                 "fuse(steps=1); product_kernel(steps=0..2, by=threads)"});
  return out;
}

// Why a schedule is refused; "" where it is not.
std::string refusal(const std::string& inputs, const std::string& weights, const std::string& steps,
                    const std::string& schedule) {
  return refusal_of(made("refused", inputs, weights, steps, R"("y")"), schedule);
}

TEST(ProductNeighbours, HaveOneA) {
  const auto mm = [](const char* a, const char* b, const char* result) {
    return step("mm", fmt::format(R"("self": "{}", "mat2": "{}")", a, b), result) + ", ";
  };
  const auto add = step("add.Tensor", R"("self": "p", "other": "q")", "y");
  const auto refused = [&](const std::string& products, int first, const std::string& sum, int last) {
    const auto inputs = tensor("a", "32, 32") + ", " + tensor("b", "32, 32") + ", " + tensor("c", "32, 32");
    return refusal(inputs, "", products + sum,
                   fmt::format("fuse(steps={0}); product_kernel(steps={1}..{0})", last, first));
  };
  const auto two = mm("a", "b", "p") + mm("a", "c", "q");
  EXPECT_EQ(refused(two, 0, add, 2), "");
  EXPECT_THAT(refused(mm("a", "b", "p") + mm("c", "b", "q"), 0, add, 2),
              testing::HasSubstr("the products of a kernel share one A"));
  const auto transposed = step("t", R"("self": "c")", "ct") + ", ";
  EXPECT_THAT(refused(transposed + mm("a", "b", "p") + mm("a", "ct", "q"), 1, add, 3),
              testing::HasSubstr("c does not lie in memory as b does"));
}

TEST(ProductNeighbours, AreEqualSlices) {
  const auto with = [](const std::string& slices) {
    const auto layer = step("linear", R"("input": "x", "weight": "w")", "h") + ", ";
    const auto sum = step("add.Tensor", R"("self": "a", "other": "b")", "y");
    return refusal(tensor("x", "32, 32"), tensor("w", "64, 32"), layer + slices + ", " + sum,
                   "fuse(steps=3); product_kernel(steps=0..3)");
  };
  const auto slice = [](const std::string& places, const char* result) {
    return step("slice.Tensor", R"("self": "h", "dim": 1, )" + places, result);
  };
  EXPECT_EQ(with(slice(R"("start": 0, "end": 32)", "a") + ", " + slice(R"("start": 32, "end": 64)", "b")), "");
  EXPECT_NE(with(slice(R"("start": 0, "end": 64, "step": 2)", "a") + ", " +
                 slice(R"("start": 1, "end": 64, "step": 2)", "b")),
            "");
  EXPECT_NE(with(slice(R"("start": 0, "end": 32)", "a") + ", " + slice(R"("start": 16, "end": 48)", "b")), "");
}

TEST(ProductNeighbours, MakeOneOperandAlone) {
  const auto f = step("sigmoid", R"("self": "x")", "f") + ", ";
  const auto mm = [](const char* b, const char* result) {
    return step("mm", fmt::format(R"("self": "f", "mat2": "{}")", b), result);
  };
  const auto x = tensor("x", "32, 32"), w = tensor("w", "32, 32");
  EXPECT_EQ(refusal(x, w, f + mm("w", "y"), "fuse(steps=0); product_kernel(steps=0..1)"), "");
  EXPECT_THAT(refusal(x, w, f + mm("f", "y"), "fuse(steps=0); product_kernel(steps=0..1)"),
              testing::HasSubstr("f is not in memory: a kernel computes only one of A and B"));
  const auto residual = mm("w", "h") + ", " + step("add.Tensor", R"("self": "h", "other": "f")", "y");
  EXPECT_THAT(refusal(x, w, f + residual, "fuse(steps=0); fuse(steps=2); product_kernel(steps=0..2)"),
              testing::HasSubstr("f is computed for a product, in front of it, and read elsewhere"));
}

TEST(ProductNeighbours, OfThreadsAreProductsOfASmallK) {
  const auto refused = [](int k, int inner, const std::string& between, const std::string& form) {
    const auto layers = step("linear", R"("input": "x", "weight": "v")", "h") + ", " + between + ", " +
                        step("linear", R"("input": "f", "weight": "w")", "y");
    return refusal(
        tensor("x", fmt::format("32, {}", k)),
        tensor("v", fmt::format("{}, {}", inner, k)) + ", " + tensor("w", fmt::format("8, {}", inner)), layers,
        fmt::format("{}product_kernel(steps=0..2{})",
                    between.find("softmax") == std::string::npos ? "fuse(steps=1); " : "row_kernel(steps=1); ", form));
  };
  const auto relu = step("relu", R"("self": "h")", "f");
  EXPECT_EQ(refused(64, 64, relu, ", by=threads"), "");
  EXPECT_THAT(refused(68, 64, relu, ", by=threads"), testing::HasSubstr("the product in front has 68"));
  EXPECT_THAT(refused(64, 68, relu, ", by=threads"), testing::HasSubstr("k is at most 64, and it is 68"));
  EXPECT_THAT(refused(64, 64, relu, ""), testing::HasSubstr("A is made of another product, which only by=threads"));
  EXPECT_NE(refused(64, 64, step("softmax.int", R"("self": "h", "dim": -1)", "f"), ", by=threads"), "");
}

std::vector<product_case> all_cases() {
  auto out = cases_of_several_products();
  for (auto* const more : {cases_in_front, cases_of_chains})
    std::ranges::move(more(), std::back_inserter(out));
  return out;
}

TEST(ProductNeighbours, AreAcceptedByTheGates) {
  expect_accepted(all_cases());
}

TEST(ProductNeighbours, CompileForAnH100) {
  expect_compiled(all_cases());
}

}  // namespace
}  // namespace cudal1::test
