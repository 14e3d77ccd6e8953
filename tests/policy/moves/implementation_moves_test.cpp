// Other implementations of library steps.
#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1::test {
namespace {

TEST(CudaMoves, AProductBecomesThreeTf32ProductsWithItsWeightSplitOnce) {
  const task& t = builtin("linear_gelu");
  EXPECT_TRUE(offers(t, "precision", for_cuda()));
  EXPECT_FALSE(offers(t, "precision", for_cpu()));
  EXPECT_THAT(refusal(t, "precision(step=0, as=tf32x3)"), HasSubstr("CUDA devices only"));
  const program p = lowered_for_cuda(t, "precision(step=0, as=tf32x3); fuse(steps=1); in_place(group=0)");
  int products = 0, biased = 0;
  for (const auto& s : p.steps) {
    const auto* call = std::get_if<aten_step>(&s);
    if (call == nullptr) continue;
    EXPECT_EQ(call->precision, "tf32");
    ++products;
    biased += std::any_of(call->args.begin(), call->args.end(), [](const auto& a) { return a.first == "bias"; });
  }
  EXPECT_EQ(products, 3);
  EXPECT_EQ(biased, 1);
  EXPECT_EQ(std::count_if(p.setup.begin(), p.setup.end(),
                          [](const step& s) { return std::holds_alternative<launch_step>(s); }),
            1);
  EXPECT_FALSE(lower(t, parsed("precision(step=0, as=tf32x3); precision(step=0, as=tf32x3)"), for_cuda()));
  EXPECT_FALSE(lower(t, parsed("precision(step=1, as=tf32x3)"), for_cuda()));
  EXPECT_FALSE(lower(t, parsed("precision(step=0, as=bfloat16)"), for_cuda()));
  const task& diagonal = builtin("diagonal_matmul");
  EXPECT_FALSE(lower(diagonal, parsed("precision(step=0, as=tf32x3); diagonal_matmul(step=0)"), for_cuda()));
  EXPECT_FALSE(lower(diagonal, parsed("diagonal_matmul(step=0); precision(step=0, as=tf32x3)"), for_cuda()));
}

}  // namespace
}  // namespace cudal1::test
