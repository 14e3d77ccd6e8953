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

}  // namespace
}  // namespace cudal1::test
