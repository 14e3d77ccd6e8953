// Where a kernel's result is stored.
#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1::test {
namespace {

TEST(CudaMoves, ASplitRowKernelWritesInPlaceWithItsLastPhase) {
  const auto& tasks = row_tasks();
  const auto t = std::ranges::find(tasks, "batch_norm_over_its_input", &task::name);
  ASSERT_NE(t, tasks.end());
  const auto result = lower(*t, parsed("row_kernel(steps=1..2); in_place(group=0)"), for_cuda());
  ASSERT_TRUE(result) << result.error().message;
  const std::string text = print_program(result->checked.text);
  EXPECT_THAT(text, HasSubstr("phase 5 of 5"));
  EXPECT_THAT(text, HasSubstr(R"({"inout":"y"})"));
  EXPECT_EQ(text.find(R"({"inout":"y"})"), text.rfind(R"({"inout":"y"})")) << "the other phases only read";
}

}  // namespace
}  // namespace cudal1::test
