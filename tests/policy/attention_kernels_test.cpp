// Attention as one kernel of a template: the gates accept it, composed or as the library's call, for masks of each form
// and odd numbers of rows and keys; and it compiles for a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/moves/move_registry.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/product_cases.hpp"

namespace cudal1::test {
namespace {

struct sizes {
  std::string batch = "2, ";
  int64_t rows = 40, keys = 48, depth = 16, width = 24;
};

std::string matrix(const std::string& name, const sizes& s, int64_t rows, int64_t columns) {
  return tensor(name, fmt::format("{}{}, {}", s.batch, rows, columns));
}

// softmax(between(q k^T)) v. `between` makes "e" of "s".
product_case composed(const std::string& name, const sizes& s, const std::string& between, const std::string& mask = "",
                      const std::string& values = "") {
  const bool is_bmm = std::ranges::count(s.batch, ',') == 1;
  const std::string product = is_bmm ? "aten::bmm" : "aten::matmul", other = is_bmm ? "mat2" : "other";
  const int steps = 4 + static_cast<int>(std::ranges::count(between, '\n'));
  return {name,
          made(name,
               matrix("q", s, s.rows, s.depth) + ", " + matrix("k", s, s.keys, s.depth) + ", " +
                   matrix("v", s, s.keys, s.width) + mask,
               "",
               fmt::format(
                   R"({{"aten": "aten::transpose.int", "args": {{"self": "k", "dim0": -2, "dim1": -1}}, "out": ["t"]}},
                              {{"aten": "{}", "args": {{"self": "q", "{}": "t"}}, "out": ["s"]}}, {}
                              {{"aten": "aten::softmax.int", "args": {{"self": "{}", "dim": -1}}, "out": ["w"]}},
                              {{"aten": "{}", "args": {{"self": "w", "{}": "v"}}, "out": ["y"]}})",
                   product, other, between, between.empty() ? "s" : "e", product, other),
               R"("y")"),
          fmt::format("template(step={}, kernel=attention{})", steps - 1, values), 1, 1};
}

product_case called(const std::string& name, const sizes& s, const std::string& arguments,
                    const std::string& mask = "") {
  return {name,
          made(name,
               matrix("q", s, s.rows, s.depth) + ", " + matrix("k", s, s.keys, s.depth) + ", " +
                   matrix("v", s, s.keys, s.width) + mask,
               "",
               R"({"aten": "aten::scaled_dot_product_attention", "args": {"query": "q", "key": "k", "value": "v")" +
                   arguments + R"(}, "out": ["y"]})",
               R"("y")"),
          "template(step=0, kernel=attention)"};
}

constexpr const char* scaled = R"({"aten": "aten::mul.Scalar", "args": {"self": "s", "other": 0.25}, "out": ["e"]},
)";
constexpr const char* divided_and_filled =
    R"({"aten": "aten::div.Scalar", "args": {"self": "s", "other": 4.0}, "out": ["d"]},
{"aten": "aten::masked_fill.Scalar", "args": {"self": "d", "mask": "m", "value": "-inf"}, "out": ["e"]},
)";
constexpr const char* with_bias = R"({"aten": "aten::mul.Scalar", "args": {"self": "s", "other": 0.25}, "out": ["d"]},
{"aten": "aten::add.Tensor", "args": {"self": "d", "other": "m"}, "out": ["e"]},
)";

std::string flags(const std::string& shape) {
  return fmt::format(R"(, {{"name": "m", "dtype": "bool", "shape": [{}],
        "draw": {{"distribution": "bernoulli", "probability": 0.3}}}})",
                     shape);
}

std::vector<product_case> cases() {
  std::vector<product_case> out;
  out.push_back(composed("plain", {}, ""));
  out.push_back(composed("scaled", {}, scaled));
  out.push_back(composed("odd_rows_and_keys", {.rows = 33, .keys = 71, .depth = 8, .width = 8}, scaled));
  out.push_back(composed("one_key", {.rows = 3, .keys = 1}, scaled));
  out.push_back(composed("several_blocks", {.batch = "1, ", .rows = 150, .keys = 40}, scaled));
  out.push_back(composed("heads", {.batch = "2, 3, ", .rows = 20, .keys = 36}, scaled));
  out.push_back(composed("deep", {.batch = "1, ", .rows = 20, .keys = 40, .depth = 128, .width = 128}, scaled));
  out.push_back(composed("biased", {}, with_bias, ", " + tensor("m", "40, 48")));
  out.push_back(composed("biased_by_key", {.batch = "2, 3, "}, with_bias, ", " + tensor("m", "2, 1, 1, 48")));
  out.push_back(composed("masked", {}, divided_and_filled, flags("2, 40, 48")));
  out.push_back(composed("masked_for_all", {.batch = "2, 3, "}, divided_and_filled, flags("1, 1, 40, 48")));
  out.push_back(
      called("kept", {.batch = "2, 2, ", .depth = 16, .width = 16}, R"(, "attn_mask": "m")", flags("40, 48")));
  out.push_back(called("added", {.batch = "2, 2, ", .depth = 16, .width = 16}, R"(, "attn_mask": "m")",
                       ", " + tensor("m", "40, 48")));
  for (const int warps : {2, 8})
    out.push_back(
        composed(fmt::format("warps_{}", warps), {.batch = "1, "}, scaled, "", fmt::format(", warps={}", warps)));
  out.push_back(composed("keys_16", {.batch = "1, ", .keys = 130}, scaled, "", ", keys=16"));
  out.push_back(called("library", {.batch = "2, 2, ", .depth = 16, .width = 16}, ""));
  out.push_back(called("causal", {.batch = "1, 2, ", .rows = 70, .keys = 70, .depth = 16, .width = 16},
                       R"(, "is_causal": true)"));
  out.push_back(called("scale", {.batch = "1, 2, ", .depth = 16, .width = 16}, R"(, "scale": 0.5)"));
  return out;
}

TEST(AttentionKernels, AreAcceptedByTheGates) {
  expect_accepted(cases());
}

TEST(AttentionKernels, CompileForAnH100) {
  auto all = cases();
  all.push_back(composed("real", {.batch = "8, ", .rows = 16384, .keys = 16384, .depth = 32, .width = 32}, ""));
  all.push_back(
      composed("real_heads", {.batch = "128, 8, ", .rows = 512, .keys = 512, .depth = 96, .width = 96}, scaled));
  for (const int depth : {32, 64, 96, 128})
    for (const int keys : {16, 32})
      all.push_back(composed(fmt::format("depth_{}_keys_{}", depth, keys),
                             {.batch = "8, ", .rows = 1024, .keys = 1024, .depth = depth, .width = depth}, scaled, "",
                             fmt::format(", keys={}", keys)));
  expect_compiled(all);
}

TEST(AttentionKernels, AreOfferedWhereTheyFit) {
  const auto offered = [](const product_case& c) { return offers(c.what, "template", for_cuda()); };
  EXPECT_TRUE(offered(composed("fits", {}, scaled)));
  EXPECT_FALSE(offers(composed("cpu", {}, scaled).what, "template", for_cpu()));
  EXPECT_FALSE(offered(composed("depth", {.depth = 12}, scaled)));
  EXPECT_FALSE(offered(composed("wide", {.width = 136}, scaled)));
  const task one_key =
      made("one_key_for_all",
           tensor("q", "2, 40, 16") + ", " + tensor("k", "2, 1, 16") + ", " + tensor("v", "2, 48, 16") + ", " +
               tensor("m", "2, 40, 48"),
           "",
           R"({"aten": "aten::transpose.int", "args": {"self": "k", "dim0": 1, "dim1": 2}, "out": ["t"]},
                               {"aten": "aten::bmm", "args": {"self": "q", "mat2": "t"}, "out": ["s"]},
                               {"aten": "aten::add.Tensor", "args": {"self": "s", "other": "m"}, "out": ["e"]},
                               {"aten": "aten::softmax.int", "args": {"self": "e", "dim": -1}, "out": ["w"]},
                               {"aten": "aten::bmm", "args": {"self": "w", "mat2": "v"}, "out": ["y"]})",
           R"("y")");
  EXPECT_THAT(refusal_of(one_key, "template(step=4, kernel=attention)"), HasSubstr("its mask makes more keys of one"));
  EXPECT_THAT(refusal_of(composed("x", {.width = 136}, scaled).what, "template(step=4, kernel=attention)"),
              HasSubstr("rows of v have 136 elements, not a multiple of 8 up to 128"));
  EXPECT_THAT(refusal_of(composed("x", {}, scaled).what, "template(step=1, kernel=attention)"),
              HasSubstr("step 1 (aten::bmm) is no attention"));
}

}  // namespace
}  // namespace cudal1::test
