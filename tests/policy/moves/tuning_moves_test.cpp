// How a kernel's work is divided.
#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1::test {
namespace {

TEST(CudaMoves, ElementsAreReadInVectorsWhereTheyAreAligned) {
  const program wide = lowered_for_cuda(builtin("gated_silu"), "fuse(steps=0..1)");
  EXPECT_THAT(wide.source, HasSubstr("*(const float4*)(gate_in"));
  EXPECT_THAT(wide.source, HasSubstr("*(float4*)(y_out"));
  const program narrow = lowered_for_cuda(builtin("gated_silu"), "fuse(steps=0..1); items(group=0, elements=1)");
  EXPECT_THAT(narrow.source, Not(HasSubstr("float4")));
  // A row of 19 elements ends in the middle of a vector; a slice may start in the middle of one.
  EXPECT_THAT(lowered_for_cuda(small("broadcast"), "fuse(steps=0..1)").source, HasSubstr("float4"));
  EXPECT_THAT(lowered_for_cuda(small("odd_slice"), "fuse(steps=1)").source, Not(HasSubstr("float4")));
  EXPECT_THAT(lowered_for_cuda(small("even_slice"), "fuse(steps=1)").source, HasSubstr("float4"));
}

TEST(CudaMoves, RowThreadsSetsTheThreadsPerRowAndRowsFillTheBlock) {
  const task& t = builtin("softmax");  // 2048 rows of 1024
  const program by_warps = lowered_for_cuda(t, "row_kernel(steps=0); row_threads(group=0, threads=32)");
  EXPECT_EQ(launch_of(by_warps).block[0] / 32, t.reference.text.inputs[0].type.shape[0] / launch_of(by_warps).grid[0]);
  const program by_blocks =
      lowered_for_cuda(t, "row_kernel(steps=0); row_threads(group=0, threads=256); block(group=0, threads=256)");
  EXPECT_EQ(launch_of(by_blocks).grid[0], t.reference.text.inputs[0].type.shape[0]);
  EXPECT_THAT(by_blocks.source, HasSubstr("__syncthreads"));
  EXPECT_THAT(by_warps.source, Not(HasSubstr("__syncthreads")));
}

}  // namespace
}  // namespace cudal1::test
