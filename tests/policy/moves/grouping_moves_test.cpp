// Which steps become one kernel.
#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1::test {
namespace {

// The sets of steps that become row kernels in the first whole schedule.
std::vector<std::string> row_kernels(const task& t, const lowering_target& target) {
  std::vector<std::string> out;
  const auto whole = whole_schedules(t, target);
  if (whole.empty()) return out;
  for (const auto& m : whole.front().moves)
    if (m.name == "row_kernel") out.push_back(m.parameters.front().second);
  return out;
}

TEST(Moves, BatchNormsAndGlobalAveragesAreOneKernelWithTheirNeighbours) {
  for (const auto* target : {&for_cpu(), &for_cuda()}) {
    for (const char* name : {"batch_norm_relu", "batch_norm_of_features", "instance_norm"})
      EXPECT_THAT(row_kernels(small(name), *target), ::testing::ElementsAre("0..1")) << name;
    EXPECT_THAT(row_kernels(small("global_average"), *target), ::testing::ElementsAre("0..2"));
  }
}

TEST(CudaMoves, OneLongRowIsReducedByManyBlocks) {
  const program p = lowered_for_cuda(builtin("mse_loss"), "row_kernel(steps=0..2)");
  EXPECT_GE(launch_of(p).grid[0], 64);
  EXPECT_EQ(launch_of(p, 1).grid[0], 1);
}

TEST(Moves, ARunningSumOfARunningSumIsAnotherKernel) {
  const auto t = read_task(
      R"({"format": 1, "name": "sums", "summary": "s", "family": "f",
          "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 32]}],
          "steps": [{"aten": "aten::cumsum", "args": {"self": "x", "dim": 1}, "out": ["a"]},
                    {"aten": "aten::sigmoid", "args": {"self": "a"}, "out": ["b"]},
                    {"aten": "aten::cumsum", "args": {"self": "b", "dim": 1}, "out": ["y"]}], "outputs": ["y"]})",
      "cpu");
  ASSERT_TRUE(t) << t.error().message;
  for (const auto* target : {&for_cpu(), &for_cuda()}) {
    const auto both = lower(*t, parsed("row_kernel(steps=0..2)"), *target);
    ASSERT_FALSE(both);
    EXPECT_THAT(both.error().message, HasSubstr("cannot share a kernel with one that it depends on"));
    EXPECT_TRUE(lower(*t, parsed("row_kernel(steps=0..1); row_kernel(steps=2)"), *target));
  }
}

// The host's compiler refuses large frames: such kernels would not compile.
TEST(Moves, WhatAThreadKeepsFitsOnItsStack) {
  const auto rows = [](int64_t columns) {
    return read_task(
               R"({"format": 1, "name": "rows", "summary": "s", "family": "f",
            "inputs": [{"name": "x", "dtype": "float32", "shape": [8, )" +
                   std::to_string(columns) + R"(]}],
            "steps": [{"aten": "aten::softmax.int", "args": {"self": "x", "dim": 1}, "out": ["y"]}], "outputs": ["y"]})",
               "cpu")
        .value();
  };
  const auto source = [](const task& t) {
    return lower(t, parsed("row_kernel(steps=0)"), for_cpu()).value().checked.text.source;
  };
  EXPECT_THAT(source(rows(8192)), HasSubstr("kept_"));
  EXPECT_THAT(source(rows(12800)), Not(HasSubstr("kept_")));
  const auto channels = read_task(
                            R"({"format": 1, "name": "channels", "summary": "s", "family": "f",
          "inputs": [{"name": "x", "dtype": "float32", "shape": [16, 127, 64]}, {"name": "b", "dtype": "float32", "shape": [127, 64]}],
          "steps": [{"aten": "aten::add.Tensor", "args": {"self": "x", "other": "b"}, "out": ["s"]},
                    {"aten": "aten::softmax.int", "args": {"self": "s", "dim": 0}, "out": ["y"]}], "outputs": ["y"]})",
                            "cpu")
                            .value();
  EXPECT_EQ(refusal(channels, "row_kernel(steps=0..1); items(group=0, elements=1024)"), "accepted");
  EXPECT_THAT(refusal(channels, "row_kernel(steps=0..1); items(group=0, elements=4096)"), HasSubstr("bytes of stack"));
}

}  // namespace
}  // namespace cudal1::test
