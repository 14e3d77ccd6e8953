// Losses and distances of rows in kernels: what the first schedules make of them, and what stays a library call.
#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1::test {
namespace {

task of_rows(const std::string& operands, const std::string& shape, const std::string& steps) {
  std::string inputs;
  for (const char name : operands)
    inputs += std::string(inputs.empty() ? "" : ", ") + R"({"name": ")" + name + R"(", "dtype": "float32", "shape": )" +
              shape + "}";
  auto read = read_task(R"({"format": 1, "name": "rows", "summary": "s", "family": "f", "inputs": [)" + inputs +
                            R"(], "steps": [)" + steps + R"(], "outputs": ["y"]})",
                        "cpu");
  if (!read) throw std::runtime_error(read.error().message);
  return *read;
}

task triplets(const std::string& more, const std::string& shape = "[128, 4096]") {
  return of_rows("apn", shape,
                 R"({"aten": "aten::triplet_margin_loss", "args": {"anchor": "a", "positive": "p", "negative": "n")" +
                     more + R"(}, "out": ["y"]})");
}

task distances(const std::string& more) {
  return of_rows("ab", "[8, 32]",
                 R"({"aten": "aten::pairwise_distance", "args": {"x1": "a", "x2": "b")" + more + R"(}, "out": ["y"]})");
}

std::string first_schedule(const task& t, const lowering_target& target) {
  const auto whole = whole_schedules(t, target);
  return whole.empty() ? "" : print_schedule(whole.front());
}

TEST(Moves, ATripletLossIsAKernelOfItsRowsAndOneOfTheirMean) {
  const task t = triplets("");
  EXPECT_EQ(first_schedule(t, for_cuda()), "row_kernel(steps=0); row_kernel(steps=1); graph()");
  const program p = lowered_for_cuda(t, "row_kernel(steps=0); row_kernel(steps=1)");
  ASSERT_EQ(p.steps.size(), 4u) << "each kernel and its result";
  EXPECT_EQ(launch_of(p).grid[0], 128);
  EXPECT_EQ(launch_of(p).block[0], 512) << "a row is read once, by a block that has the processor to itself";
  EXPECT_EQ(launch_of(p, 1).grid[0], 1);
}

TEST(Moves, ATripletLossWithoutKernelsIsThatOfItsRowsAndTheirMeanOrSum) {
  for (const auto& [more, op] : {std::pair("", "aten::mean"), std::pair(R"(, "reduction": 2)", "aten::sum")}) {
    const auto made = lower(triplets(more), {}, for_cpu());
    ASSERT_TRUE(made) << made.error().message;
    ASSERT_EQ(made->checked.text.steps.size(), 2u);
    EXPECT_EQ(std::get<aten_step>(made->checked.text.steps[0]).op, "aten::triplet_margin_loss");
    EXPECT_EQ(std::get<aten_step>(made->checked.text.steps[1]).op, op);
  }
  for (const task& t : {triplets(R"(, "reduction": 0)"), triplets("", "[4096]")}) {
    const auto made = lower(t, {}, for_cpu());
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->checked.text.steps.size(), 1u) << "nothing is averaged";
  }
}

TEST(Moves, NormsOtherThanTheFirstTwoStayLibraryCalls) {
  EXPECT_EQ(refusal(distances(R"(, "p": 1)"), "row_kernel(steps=0)"), "accepted");
  EXPECT_THAT(refusal(distances(R"(, "p": 3)"), "row_kernel(steps=0)"),
              HasSubstr("aten::pairwise_distance with p=3 stays a library call; p=1 and p=2 can be in a kernel"));
  EXPECT_THAT(refusal(triplets(R"(, "p": 3)"), "row_kernel(steps=0)"), HasSubstr("aten::triplet_margin_loss with p=3"));
  EXPECT_THAT(refusal(triplets("", "[4096]"), "row_kernel(steps=0)"), HasSubstr("averaged or summed in the same step"));
}

TEST(Moves, ACosineSimilarityIsOneKernelWithWhatReadsIt) {
  const task t = of_rows("ab", "[128, 4096]",
                         R"({"aten": "aten::cosine_similarity", "args": {"x1": "a", "x2": "b"}, "out": ["c"]},
         {"aten": "aten::rsub.Scalar", "args": {"self": "c", "other": 1}, "out": ["r"]},
         {"aten": "aten::mean", "args": {"self": "r"}, "out": ["y"]})");
  EXPECT_EQ(first_schedule(t, for_cuda()), "row_kernel(steps=0..1); row_kernel(steps=2); graph()");
  EXPECT_EQ(launch_of(lowered_for_cuda(t, "row_kernel(steps=0..1); row_kernel(steps=2)")).grid[0], 128);
  EXPECT_THAT(refusal(t, "row_kernel(steps=0..2)"), HasSubstr("reduce different dimensions"));
}

TEST(Moves, ALossOfElementsIsPointwiseUnlessItIsReduced) {
  const auto huber = [](const std::string& reduction) {
    return of_rows("ab", "[8, 32]",
                   R"({"aten": "aten::huber_loss", "args": {"self": "a", "target": "b", "reduction": )" + reduction +
                       R"(}, "out": ["y"]})");
  };
  EXPECT_EQ(refusal(huber("0"), "fuse(steps=0)"), "accepted");
  EXPECT_THAT(refusal(huber("0"), "row_kernel(steps=0)"), HasSubstr("use fuse"));
  EXPECT_EQ(refusal(huber("1"), "row_kernel(steps=0)"), "accepted");
  EXPECT_THAT(refusal(huber("1"), "fuse(steps=0)"), HasSubstr("use row_kernel"));
}

}  // namespace
}  // namespace cudal1::test
