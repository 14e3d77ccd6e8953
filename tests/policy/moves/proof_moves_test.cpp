// Proof moves: legal only where the facts are declared; their proofs are kept as certificates.
#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1::test {
namespace {

TEST(Moves, ProofMovesNeedTheFactAndLeaveACertificate) {
  EXPECT_TRUE(offers(builtin("diagonal_matmul"), "diagonal_matmul"));
  EXPECT_TRUE(offers(small("column_scale"), "diagonal_matmul"));
  EXPECT_FALSE(offers(small("plain_product"), "diagonal_matmul"));
  EXPECT_FALSE(offers(small("plain_product"), "drop"));
  EXPECT_FALSE(offers(small("relu"), "drop"));
  const auto diagonal = lower(builtin("diagonal_matmul"), parsed("diagonal_matmul(step=0)"), for_cpu());
  ASSERT_TRUE(diagonal);
  ASSERT_EQ(diagonal->certificates.size(), 1u);
  EXPECT_THAT(diagonal->certificates[0], HasSubstr("declares a diagonal"));
  EXPECT_THAT(diagonal->certificates[0], HasSubstr("assumes that b is finite"));
  const auto dropped = lower(builtin("triangular_matmul"), parsed("drop(step=1)"), for_cpu());
  ASSERT_TRUE(dropped);
  ASSERT_EQ(dropped->certificates.size(), 1u);
  EXPECT_THAT(dropped->certificates[0], HasSubstr("product of two upper-triangular"));
  EXPECT_EQ(dropped->checked.text.steps.size(), 1u);
  EXPECT_EQ(dropped->checked.text.outputs, builtin("triangular_matmul").reference.text.outputs);
}

TEST(Moves, AStepIsNotDroppedWhereItsResultHasAnotherLayout) {
  const auto t = read_task(
      R"({"format": 1, "name": "expanded", "summary": "s", "family": "f",
          "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 8]}],
          "steps": [{"aten": "aten::sigmoid", "args": {"self": "x"}, "out": ["s"]},
                    {"aten": "aten::expand", "args": {"self": "s", "size": [4, 8]}, "out": ["e"]},
                    {"aten": "aten::relu", "args": {"self": "e"}, "out": ["r"]},
                    {"aten": "aten::view", "args": {"self": "r", "size": [32]}, "out": ["v"]},
                    {"aten": "aten::neg", "args": {"self": "v"}, "out": ["y"]}],
          "outputs": ["y"]})",
      "cpu");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_THAT(refusal(*t, "drop(step=2)"), HasSubstr("another type, shape or layout"));
}

TEST(Moves, ASumIsPulledThroughALinearLayerWithConstantWeightsOnly) {
  const task& t = builtin("linear_row_sum");
  EXPECT_TRUE(offers(t, "pull_sum_through_linear"));
  EXPECT_FALSE(offers(builtin("mlp"), "pull_sum_through_linear"));
  EXPECT_FALSE(offers(small("sum_rows"), "pull_sum_through_linear"));
  const auto pulled = lower(t, parsed("pull_sum_through_linear(step=1)"), for_cpu());
  ASSERT_TRUE(pulled) << pulled.error().message;
  EXPECT_EQ(pulled->checked.text.setup.size(), 2u);
  for (const auto& s : pulled->checked.text.steps) {
    const auto* aten = std::get_if<aten_step>(&s);
    EXPECT_TRUE(aten == nullptr || aten->op != "aten::linear");
  }
  ASSERT_EQ(pulled->certificates.size(), 1u);
  EXPECT_THAT(pulled->certificates[0], HasSubstr("assumes that x is finite"));
}

}  // namespace
}  // namespace cudal1::test
