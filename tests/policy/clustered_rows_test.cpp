// Rows that the blocks of a cluster share, and norms whose mean and variance one pass over a row finds: the gates
// accept their kernels, for rows of every length, in every type; and they compile for a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/moves/move_registry.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/product_cases.hpp"

namespace cudal1::test {
namespace {

product_case rows(const std::string& name, const std::string& op, const std::string& shape, const std::string& args,
                  const std::string& tuning, const std::string& type = "float32") {
  return {name,
          made(name, tensor("x", shape, type), "",
               fmt::format(R"({{"aten": "aten::{}", "args": {{{}}}, "out": ["y"]}})", op, args), R"("y")"),
          "row_kernel(steps=0)" + tuning};
}

std::string blocks(int count) {
  return fmt::format("; row_blocks(group=0, blocks={})", count);
}

const std::string of_last = R"("self": "x", "dim": -1)";

product_case layer_norm(const std::string& name, const std::string& shape, int columns, const std::string& tuning,
                        const std::string& type = "float32") {
  return rows(name, "layer_norm", shape, fmt::format(R"("input": "x", "normalized_shape": [{}])", columns), tuning,
              type);
}

product_case group_norm(const std::string& name, const std::string& shape, int groups, const std::string& tuning) {
  return rows(name, "group_norm", shape, fmt::format(R"("input": "x", "num_groups": {})", groups), tuning);
}

std::vector<product_case> cases() {
  std::vector<product_case> out;
  for (const int count : {2, 4, 8}) {
    out.push_back(rows(fmt::format("softmax_{}", count), "softmax.int", "2, 9000", of_last, blocks(count)));
    out.push_back(layer_norm(fmt::format("layer_norm_{}", count), "3, 8196", 8196, blocks(count)));
  }
  // The elements stay in registers, or are read once for the maximum and the sum, and again.
  out.push_back(rows("long_softmax", "softmax.int", "1, 262144", of_last, blocks(8)));
  out.push_back(
      rows("softmax_by_32", "softmax.int", "2, 9000", of_last, blocks(4) + "; row_threads(group=0, threads=32)"));
  out.push_back(rows("logsumexp", "logsumexp", "2, 10003", R"("self": "x", "dim": [1])", blocks(8)));
  out.push_back(rows("maximum", "amax", "4, 8192", R"("self": "x", "dim": [1])", blocks(4)));
  out.push_back(rows("minimum", "amin", "2, 8192", R"("self": "x", "dim": [1])", blocks(2)));
  out.push_back(rows("sum_of_everything", "sum", "70000", R"("self": "x")", blocks(8)));
  out.push_back(group_norm("groups", "2, 6, 41, 100", 3, blocks(4)));
  out.push_back(group_norm("long_groups", "1, 4, 128, 520", 2, blocks(2)));
  out.push_back(rows("deviation", "std.correction", "3, 12000", R"("self": "x", "dim": [1])", blocks(8)));
  for (const char* type : {"float16", "bfloat16"}) {
    out.push_back(rows(fmt::format("softmax_of_{}", type), "softmax.int", "2, 20000", of_last, blocks(4), type));
    out.push_back(layer_norm(fmt::format("norm_of_{}", type), "2, 16392", 16392, blocks(8), type));
  }
  return out;
}

// Without clusters: many rows, since few ones are split into several kernels.
std::vector<product_case> moments() {
  std::vector<product_case> out;
  out.push_back(layer_norm("long_norm", "99, 32772", 32772, ""));
  out.push_back(layer_norm("norm_in_pairs", "99, 32776", 32776, "; unroll(group=0, accumulators=2)"));
  out.push_back(layer_norm("norm_in_sums_of_doubles", "99, 34000", 34000, "; row_threads(group=0, threads=32)"));
  out.push_back(layer_norm("norm_of_bfloat16", "99, 40008", 40008, "", "bfloat16"));
  out.push_back(rows("variance", "var.correction", "99, 33000", R"("self": "x", "dim": [1])", ""));
  return out;
}

TEST(ClusteredRows, AreAcceptedByTheGates) {
  expect_accepted(cases());
}

TEST(ClusteredRows, CompileForAnH100) {
  expect_compiled(cases());
}

TEST(Moments, OfOnePassAreAcceptedByTheGates) {
  const auto all = moments();
  for (const auto& c : all) {
    const std::string text = lowered_for_cuda(c.what, c.schedule).source;
    EXPECT_THAT(text, testing::HasSubstr("middle_")) << c.name;
  }
  expect_accepted(all);
}

TEST(Moments, OfOnePassCompileForAnH100) {
  expect_compiled(moments());
}

TEST(ClusteredRows, AreOfferedWhereTheyMayPay) {
  const auto refusal = [](const product_case& c) { return refusal_of(c.what, c.schedule); };
  using testing::HasSubstr;
  EXPECT_THAT(refusal(rows("short", "softmax.int", "4, 1000", of_last, blocks(2))), HasSubstr("would not help"));
  EXPECT_THAT(refusal(rows("many", "softmax.int", "5000, 8192", of_last, blocks(8))), HasSubstr("would not help"));
  EXPECT_THAT(refusal(rows("scan", "cumsum", "4, 100000", of_last, blocks(8))), HasSubstr("would not help"));
  EXPECT_THAT(refusal(rows("down", "softmax.int", "9000, 70", R"("self": "x", "dim": 0)", blocks(4))),
              HasSubstr("would not help"));
  const auto fits = rows("fits", "softmax.int", "2, 9000", of_last, "");
  EXPECT_TRUE(offers(fits.what, "row_kernel", for_cuda()));
  EXPECT_EQ(refusal_of(fits.what, "row_kernel(steps=0)" + blocks(8)), "");
}

}  // namespace
}  // namespace cudal1::test
