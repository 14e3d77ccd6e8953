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

// The sigmoids of a product, of which nothing is negative: `positive` is theirs once the ReLU is dropped.
task sigmoids_with_a_second_reader() {
  auto read = read_task(
      R"({"format": 1, "name": "sigmoids", "summary": "s", "family": "f",
          "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 8]}],
          "steps": [{"aten": "aten::mm", "args": {"self": "x", "mat2": "x"}, "out": ["product"]},
                    {"aten": "aten::sigmoid", "args": {"self": "product"}, "out": ["sigmoids"]},
                    {"aten": "aten::relu", "args": {"self": "sigmoids"}, "out": ["positive"]},
                    {"aten": "aten::tanh", "args": {"self": "positive"}, "out": ["y"]},
                    {"aten": "aten::mm", "args": {"self": "sigmoids", "mat2": "x"}, "out": ["z"]}],
          "outputs": ["y", "z"]})",
      "cpu");
  if (!read) throw std::runtime_error(read.error().message);
  return std::move(*read);
}

TEST(Moves, AStepIsNotDroppedWhereAKernelWouldOverwriteWhatOthersRead) {
  const task t = sigmoids_with_a_second_reader();
  EXPECT_EQ(refusal(t, "fuse(steps=3); in_place(group=0)"), "accepted");
  EXPECT_EQ(refusal(t, "drop(step=2); fuse(steps=3)"), "accepted");
  EXPECT_THAT(refusal(t, "drop(step=2); fuse(steps=3); in_place(group=0)"), HasSubstr("nothing reads later"));
  EXPECT_THAT(refusal(t, "fuse(steps=3); in_place(group=0); drop(step=2)"),
              HasSubstr("group 0 overwrites positive, which others read"));
}

}  // namespace
}  // namespace cudal1::test
