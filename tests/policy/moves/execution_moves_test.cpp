// Moves that change how the program runs rather than its kernels.
#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1::test {
namespace {

TEST(CudaMoves, TheGraphMoveExistsOnCudaOnly) {
  const task& t = builtin("softmax");
  EXPECT_TRUE(lowered_for_cuda(t, "graph()").how.graph);
  EXPECT_FALSE(lowered_for_cuda(t, "row_kernel(steps=0)").how.graph);
  EXPECT_TRUE(offers(t, "graph", for_cuda()));
  EXPECT_FALSE(offers(t, "graph", for_cpu()));
  EXPECT_THAT(refusal(t, "graph()"), HasSubstr("CUDA devices only"));
  EXPECT_FALSE(lower(t, parsed("graph(); graph()"), for_cuda()));
}

}  // namespace
}  // namespace cudal1::test
