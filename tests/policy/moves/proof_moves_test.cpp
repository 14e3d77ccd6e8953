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
  EXPECT_THAT(refusal(softmax_of_one, "constant(step=1)"), HasSubstr("only constant steps read it"));
  EXPECT_THAT(refusal(softmax_of_one, "constant(step=0)"), HasSubstr("no rule"));
  const auto l = lower(softmax_of_one, parsed("constant(step=3); drop(step=2); drop(step=1); drop(step=0)"), for_cpu());
  ASSERT_TRUE(l) << l.error().message;
  EXPECT_EQ(l->checked.text.setup.size(), 3u) << "the number 1, its tanh, and twice that";
  EXPECT_THAT(l->certificates[0],
              AllOf(HasSubstr("over one element"), HasSubstr("assumes that the inputs are finite")));
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

// Infinity times 0, or minus itself, is NaN, and so are clamps and softmaxes of NaN.
TEST(Moves, NothingIsConstantAfterAnOperatorThatMayHaveNoValue) {
  for (const char* steps : {R"({"aten": "aten::div.Scalar", "args": {"self": "x", "other": 0}, "out": ["d"]},
              {"aten": "aten::mul.Scalar", "args": {"self": "d", "other": 0}, "out": ["y"]})",
                            R"({"aten": "aten::abs", "args": {"self": "x"}, "out": ["a"]},
              {"aten": "aten::div.Scalar", "args": {"self": "a", "other": 0}, "out": ["y"]})",
                            R"({"aten": "aten::relu", "args": {"self": "x"}, "out": ["r"]},
              {"aten": "aten::reciprocal", "args": {"self": "r"}, "out": ["d"]},
              {"aten": "aten::sub.Tensor", "args": {"self": "d", "other": "d"}, "out": ["y"]})",
                            R"({"aten": "aten::log", "args": {"self": "x"}, "out": ["l"]},
              {"aten": "aten::clamp_max", "args": {"self": "l", "max": 0.0}, "out": ["m"]},
              {"aten": "aten::clamp", "args": {"self": "m", "min": 0.0, "max": 1.0}, "out": ["y"]})",
                            R"({"aten": "aten::div.Tensor", "args": {"self": "x", "other": "x"}, "out": ["d"]},
              {"aten": "aten::softmax.int", "args": {"self": "d", "dim": 1}, "out": ["y"]})"})
    EXPECT_FALSE(offers(constant_task(steps), "constant")) << steps;
  // The same of what cannot be zero.
  EXPECT_TRUE(offers(constant_task(R"({"aten": "aten::exp", "args": {"self": "x"}, "out": ["e"]},
              {"aten": "aten::clamp_min", "args": {"self": "e", "min": 0.1}, "out": ["c"]},
              {"aten": "aten::div.Tensor", "args": {"self": "x", "other": "c"}, "out": ["d"]},
              {"aten": "aten::mul.Scalar", "args": {"self": "d", "other": 0}, "out": ["y"]})"),
                     "constant"));
}

// What proofs say of sums and products holds for finite numbers.
TEST(Moves, ProofsDoNotReorderWhatIsNeverFinite) {
  const auto layered = [](const std::string& before, const std::string& input) {
    const auto t = read_task(
        R"({"format": 1, "name": "layered", "summary": "s", "family": "f",
            "inputs": [{"name": "x", "dtype": "float32", "shape": [12, 64]}],
            "weights": [{"name": "w", "dtype": "float32", "shape": [32, 64]}],
            "steps": [)" +
            before + R"({"aten": "aten::linear", "args": {"input": ")" + input + R"(", "weight": "w"}, "out": ["l"]},
              {"aten": "aten::sum.dim_IntList", "args": {"self": "l", "dim": [1]}, "out": ["y"]}], "outputs": ["y"]})",
        "cpu");
    EXPECT_TRUE(t) << t.error().message;
    return *t;
  };
  const std::string divided = R"({"aten": "aten::div.Scalar", "args": {"self": "x", "other": 0}, "out": ["d"]},)";
  EXPECT_TRUE(offers(layered("", "x"), "pull_sum_through_linear"));
  EXPECT_FALSE(offers(layered(divided, "d"), "pull_sum_through_linear"));
}

// `norm` reads "s", which `shift` makes of x: [2, 6, 4, 10].
task shifted_task(const std::string& shift, const std::string& norm, const std::string& outputs = R"("y")") {
  const auto t = read_task(
      R"({"format": 1, "name": "shifted", "summary": "s", "family": "f",
          "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 6, 4, 10]},
                     {"name": "rows", "dtype": "float32", "shape": [2, 6, 4, 1]},
                     {"name": "columns", "dtype": "float32", "shape": [10]},
                     {"name": "channels", "dtype": "float32", "shape": [6, 1, 1]},
                     {"name": "samples", "dtype": "float32", "shape": [2, 1, 1, 1]}],
          "weights": [{"name": "v", "dtype": "float32", "shape": [6]}, {"name": "w", "dtype": "float32", "shape": [6]}],
          "steps": [)" +
          shift + ", " + norm + R"(], "outputs": [)" + outputs + "]}",
      "cpu");
  EXPECT_TRUE(t) << t.error().message;
  return *t;
}

std::string shift_by(const std::string& value, const std::string& op = "add.Tensor") {
  return R"({"aten": "aten::)" + op + R"(", "args": {"self": "x", "other": )" + value + R"(}, "out": ["s"]})";
}

std::string reads_shifted(const std::string& op, const std::string& arguments) {
  return R"({"aten": "aten::)" + op + R"(", "args": {)" + arguments + R"(}, "out": ["y"]})";
}

const std::string softmax_of_rows = reads_shifted("softmax.int", R"("self": "s", "dim": -1)");
const std::string layer_norm_of_rows = reads_shifted("layer_norm", R"("input": "s", "normalized_shape": [10])");
const std::string instance_norm_of_s = reads_shifted(
    "instance_norm",
    R"("input": "s", "weight": null, "bias": null, "running_mean": null, "running_var": null, "use_input_stats": true, "momentum": 0.1, "eps": 1e-05, "cudnn_enabled": false)");
const std::string group_norm_of_s = reads_shifted("group_norm", R"("input": "s", "num_groups": 2)");

const std::string no_statistics = R"(, "running_mean": null, "running_var": null)";

std::string batch_norm_of_s(const std::string& training, const std::string& statistics = no_statistics) {
  return reads_shifted("batch_norm", R"("input": "s", "weight": null, "bias": null, "training": )" + training +
                                         statistics + R"(, "momentum": 0.1, "eps": 1e-05, "cudnn_enabled": false)");
}

TEST(Moves, AShiftIsDroppedWhereTheNormSubtractsItAgain) {
  for (const auto& [shift, norm] : std::vector<std::pair<std::string, std::string>>{
           {shift_by(R"("rows")"), softmax_of_rows},
           {shift_by(R"("rows")", "sub.Tensor"), reads_shifted("log_softmax.int", R"("self": "s", "dim": 3)")},
           {shift_by("3.5", "add.Scalar"), layer_norm_of_rows},
           {shift_by("3.5", "sub.Scalar"), group_norm_of_s},
           {shift_by(R"("rows")"), layer_norm_of_rows},
           {shift_by(R"("channels")"), instance_norm_of_s},
           {shift_by(R"("samples")"), group_norm_of_s},
           {shift_by(R"("channels")"), batch_norm_of_s("true")},
           {R"({"aten": "aten::add.Tensor", "args": {"self": "rows", "other": "x"}, "out": ["s"]})",
            softmax_of_rows}}) {
    const task t = shifted_task(shift, norm);
    const auto l = lower(t, parsed("drop(step=0)"), for_cpu());
    ASSERT_TRUE(l) << shift << norm << l.error().message;
    EXPECT_EQ(l->checked.text.steps.size(), 1u);
    EXPECT_THAT(l->certificates.front(), AllOf(HasSubstr("subtracts its own mean or maximum"), HasSubstr("is finite")));
  }
}

TEST(Moves, AShiftIsNotDroppedWhereTheResultDependsOnIt) {
  const std::string statistics = R"(, "running_mean": "v", "running_var": "w")";
  for (const auto& [shift, norm] : std::vector<std::pair<std::string, std::string>>{
           {shift_by(R"("columns")"), softmax_of_rows},
           {shift_by(R"("columns")"), layer_norm_of_rows},
           {shift_by(R"("rows")"), reads_shifted("softmax.int", R"("self": "s", "dim": 1)")},
           {shift_by(R"("rows")"), instance_norm_of_s},
           {shift_by(R"("channels")"), group_norm_of_s},
           {shift_by(R"("samples")"), batch_norm_of_s("true")},
           {shift_by(R"("channels")"), batch_norm_of_s("false", statistics)},
           {shift_by("3.5", "add.Scalar"), reads_shifted("rms_norm", R"("input": "s", "normalized_shape": [10])")},
           {shift_by(R"("rows")"), reads_shifted("logsumexp", R"("self": "s", "dim": [3])")},
           {shift_by("3.5", "mul.Scalar"), softmax_of_rows},
           {shift_by(R"("x")"), softmax_of_rows}})
    EXPECT_FALSE(offers(shifted_task(shift, norm), "drop")) << shift << norm;
  EXPECT_FALSE(offers(shifted_task(shift_by(R"("rows")"), softmax_of_rows, R"("y", "s")"), "drop"));
  const std::string with_mean =
      R"({"aten": "aten::native_layer_norm", "args": {"input": "s", "normalized_shape": [10], "weight": null,
          "bias": null, "eps": 1e-05}, "out": ["y", "m", "r"]})";
  EXPECT_TRUE(offers(shifted_task(shift_by(R"("rows")"), with_mean), "drop"));
  EXPECT_FALSE(offers(shifted_task(shift_by(R"("rows")"), with_mean, R"("y", "m")"), "drop")) << "the mean has it";
}

// `w`: the shape of the second layer's weight; x: [8, 32], the first weight: [48, 32].
task two_layers(const std::string& w, const std::string& between = "", const std::string& outputs = R"("y")") {
  const auto t = read_task(
      R"({"format": 1, "name": "layers", "summary": "s", "family": "f",
          "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 32]}, {"name": "i", "dtype": "float32", "shape": [16, 48]}],
          "weights": [{"name": "v", "dtype": "float32", "shape": [48, 32]}, {"name": "a", "dtype": "float32", "shape": [48]},
                      {"name": "w", "dtype": "float32", "shape": )" +
          w +
          R"(}], "steps": [{"aten": "aten::linear", "args": {"input": "x", "weight": "v", "bias": "a"}, "out": ["l"]},)" +
          (between.empty() ? R"({"aten": "aten::linear", "args": {"input": "l", "weight": "w"}, "out": ["y"]})"
                           : between) +
          R"(], "outputs": [)" + outputs + "]}",
      "cpu");
  EXPECT_TRUE(t) << t.error().message;
  return *t;
}

TEST(Moves, TwoLinearLayersBecomeOneWhereThatIsLessWork) {
  const auto l = lower(two_layers("[16, 48]"), parsed("compose_linear(step=1)"), for_cpu());
  ASSERT_TRUE(l) << l.error().message;
  ASSERT_EQ(l->checked.text.steps.size(), 1u);
  const auto& layer = std::get<aten_step>(l->checked.text.steps[0]);
  EXPECT_EQ(layer.op, "aten::linear");
  EXPECT_EQ(l->checked.types.at(layer.args[1].second.as_string()).shape, (std::vector<int64_t>{16, 32}));
  EXPECT_THAT(l->certificates.front(), HasSubstr("512 in place of 2304 multiplications"));
  EXPECT_THAT(refusal(two_layers("[512, 48]", ""), "compose_linear(step=1)"), "accepted");
  // The second layer has no bias of its own, and needs that of both in every implementation.
  for (const char* further : {"", "; precision(step=1, as=tf32x3)", "; product_kernel(steps=1)"}) {
    const program p = lowered_for_cuda(two_layers("[16, 48]"), "compose_linear(step=1)" + std::string(further));
    std::string bias;
    for (const auto& s : p.setup)
      if (const auto* call = std::get_if<aten_step>(&s);
          call != nullptr && call->results[0].starts_with("offset_float32"))
        bias = call->results[0];
    ASSERT_NE(bias, "");
    bool read = false;
    for (const auto& s : p.steps) {
      if (const auto* launch = std::get_if<launch_step>(&s))
        read = read || std::ranges::any_of(launch->args, [&](const auto& a) { return a.tensor == bias; });
      else if (const auto* call = std::get_if<aten_step>(&s))
        read = read || std::ranges::any_of(call->args, [&](const auto& a) {
                 return a.second.is_string() && a.second.as_string() == bias;
               });
    }
    EXPECT_TRUE(read) << further;
  }
  const char* after_relu = R"({"aten": "aten::relu", "args": {"self": "l"}, "out": ["r"]},
      {"aten": "aten::linear", "args": {"input": "r", "weight": "w"}, "out": ["y"]})";
  EXPECT_FALSE(offers(two_layers("[16, 48]", after_relu), "compose_linear"));
  const char* by_an_input = R"({"aten": "aten::linear", "args": {"input": "l", "weight": "i"}, "out": ["y"]})";
  EXPECT_FALSE(offers(two_layers("[16, 48]", by_an_input), "compose_linear"));
  EXPECT_FALSE(offers(two_layers("[16, 48]", "", R"("y", "l")"), "compose_linear"));
}

TEST(Moves, ABottleneckStaysTwoLayers) {
  const auto t = read_task(
      R"({"format": 1, "name": "low_rank", "summary": "s", "family": "f",
          "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 64]}],
          "weights": [{"name": "v", "dtype": "float32", "shape": [8, 64]}, {"name": "w", "dtype": "float32", "shape": [64, 8]}],
          "steps": [{"aten": "aten::linear", "args": {"input": "x", "weight": "v"}, "out": ["l"]},
                    {"aten": "aten::linear", "args": {"input": "l", "weight": "w"}, "out": ["y"]}], "outputs": ["y"]})",
      "cpu");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_THAT(refusal(*t, "compose_linear(step=1)"), HasSubstr("takes as many multiplications"));
}

}  // namespace
}  // namespace cudal1::test
