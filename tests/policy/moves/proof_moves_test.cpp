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

// A linear layer from which a weight is subtracted, before `steps`.
task shifted_layer(const std::string& steps, const std::string& outputs = R"("y")") {
  const auto t = read_task(
      R"({"format": 1, "name": "shifted", "summary": "s", "family": "f",
          "inputs": [{"name": "x", "dtype": "float32", "shape": [16, 32]}],
          "weights": [{"name": "w", "dtype": "float32", "shape": [24, 32]},
                      {"name": "b", "dtype": "float32", "shape": [24]}, {"name": "c", "dtype": "float32", "shape": [24]}],
          "steps": [{"aten": "aten::linear", "args": {"input": "x", "weight": "w", "bias": "b"}, "out": ["l"]},
                    {"aten": "aten::sub.Tensor", "args": {"self": "l", "other": "c"}, "out": ["d"]},)" +
          steps + R"(], "outputs": [)" + outputs + "]}",
      "cpu");
  EXPECT_TRUE(t) << t.error().message;
  return *t;
}

TEST(Moves, ASumIsPulledThroughWeightsThatAreAddedToTheLayer) {
  const std::string mean =
      R"({"aten": "aten::mean.dim", "args": {"self": "d", "dim": [1], "keepdim": true}, "out": ["y"]})";
  const task t = shifted_layer(mean);
  const auto pulled = lower(t, parsed("pull_sum_through_linear(step=2)"), for_cpu());
  ASSERT_TRUE(pulled) << pulled.error().message;
  EXPECT_EQ(pulled->checked.text.setup.size(), 4u) << "three sums, and their difference";
  EXPECT_THAT(pulled->certificates[0], AllOf(HasSubstr("what step 1 adds"), HasSubstr("w, b, c are weights")));
  const task read_elsewhere =
      shifted_layer(mean + R"(, {"aten": "aten::relu", "args": {"self": "d"}, "out": ["z"]})", R"("y", "z")");
  EXPECT_FALSE(offers(read_elsewhere, "pull_sum_through_linear"));
  const task by_an_input = shifted_layer(
      R"({"aten": "aten::sub.Tensor", "args": {"self": "d", "other": "d"}, "out": ["e"]},
         {"aten": "aten::mean.dim", "args": {"self": "e", "dim": [1], "keepdim": true}, "out": ["y"]})");
  EXPECT_FALSE(offers(by_an_input, "pull_sum_through_linear"));
}

task constant_task(const std::string& steps) {
  const auto t = read_task(
      R"({"format": 1, "name": "constant", "summary": "s", "family": "f",
          "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 1, 64]}], "steps": [)" +
          steps + R"(], "outputs": ["y"]})",
      "cpu");
  EXPECT_TRUE(t) << t.error().message;
  return *t;
}

TEST(Moves, AConstantIsComputedAtSetUpAndWhatItNeededIsLeftOut) {
  const task softmax_of_one = constant_task(
      R"({"aten": "aten::exp", "args": {"self": "x"}, "out": ["e"]},
         {"aten": "aten::softmax.int", "args": {"self": "e", "dim": 1}, "out": ["s"]},
         {"aten": "aten::tanh", "args": {"self": "s"}, "out": ["t"]},
         {"aten": "aten::mul.Scalar", "args": {"self": "t", "other": 2.0}, "out": ["y"]})");
  EXPECT_THAT(refusal(softmax_of_one, "constant(step=1)"), HasSubstr("only steps read it that are constant too"));
  EXPECT_THAT(refusal(softmax_of_one, "constant(step=0)"), HasSubstr("no rule"));
  const auto l = lower(softmax_of_one, parsed("constant(step=3); drop(step=2); drop(step=1); drop(step=0)"), for_cpu());
  ASSERT_TRUE(l) << l.error().message;
  EXPECT_EQ(l->checked.text.setup.size(), 3u) << "the number 1, its tanh, and twice that";
  EXPECT_THAT(l->certificates[0], AllOf(HasSubstr("over one element"), HasSubstr("assumes that all values")));
  for (const auto& s : l->checked.text.steps)
    EXPECT_FALSE(std::holds_alternative<aten_step>(s)) << "a step of the task is left";
  // A kernel made before, whose result only the constant needed.
  EXPECT_EQ(refusal(softmax_of_one, "fuse(steps=0); constant(step=3); drop(step=2); drop(step=1)"), "accepted");
  const task clamped = constant_task(
      R"({"aten": "aten::clamp_max", "args": {"self": "x", "max": 0.0}, "out": ["m"]},
         {"aten": "aten::clamp", "args": {"self": "m", "min": 0.0, "max": 1.0}, "out": ["y"]})");
  EXPECT_TRUE(offers(clamped, "constant"));
}

TEST(Moves, NothingIsConstantThatAnInputCanChange) {
  for (const char* steps :
       {R"({"aten": "aten::softmax.int", "args": {"self": "x", "dim": 2}, "out": ["y"]})",
        R"({"aten": "aten::clamp_max", "args": {"self": "x", "max": 0.5}, "out": ["m"]},
              {"aten": "aten::clamp", "args": {"self": "m", "min": 0.0, "max": 1.0}, "out": ["y"]})",
        R"({"aten": "aten::relu", "args": {"self": "x"}, "out": ["r"]},
              {"aten": "aten::clamp", "args": {"self": "r", "min": 0.0, "max": 1.0}, "out": ["y"]})",
        R"({"aten": "aten::relu", "args": {"self": "x"}, "out": ["r"]},
              {"aten": "aten::sub.Tensor", "args": {"self": "r", "other": "x"}, "out": ["y"]})",
        R"({"aten": "aten::mul.Scalar", "args": {"self": "x", "other": 1e-30}, "out": ["y"]})",
        R"({"aten": "aten::sub.Tensor", "args": {"self": "x", "other": "x", "alpha": 2}, "out": ["y"]})"})
    EXPECT_FALSE(offers(constant_task(steps), "constant")) << steps;
}

}  // namespace
}  // namespace cudal1::test
