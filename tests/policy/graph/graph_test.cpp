// The graph that moves transform: dropped and replaced steps, and their certificates.
#include "policy/graph/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/moves/lowering.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Graph, AReplacedStepKeepsItsNumberAndResultsButHasNewOperands) {
  const task& t = builtin("mlp");
  graph g(t);
  const std::string input = t.reference.text.inputs.front().name;
  const std::string result = g.step_at(1).text->results[0];
  const std::string task_op = g.step_at(1).op();
  ASSERT_THAT(g.readers(g.step_at(0).text->results[0]), ElementsAre(1));
  graph changed = g;
  changed.rewrite(1, {.by = {"cudal1::example", {{"of", tensor_argument{input, g.type_of(input)}}}},
                      .certificate = "an example",
                      .left_out = {0}});
  EXPECT_EQ(changed.step_at(1).op(), "cudal1::example");
  EXPECT_EQ(changed.step_at(1).task_op(), task_op);
  EXPECT_EQ(changed.definition(1).op(), task_op);
  EXPECT_TRUE(changed.step_at(1).is_replaced());
  EXPECT_EQ(changed.producer(result)->number, 1);
  EXPECT_THAT(changed.operands(changed.step_at(1)), ElementsAre(input));
  EXPECT_THAT(changed.makers()[1], IsEmpty());
  EXPECT_TRUE(changed.step_at(0).dropped);
  EXPECT_THAT(changed.certificates(), ElementsAre("an example"));
  // The original graph is unchanged.
  EXPECT_FALSE(g.step_at(1).is_replaced());
  EXPECT_THAT(g.certificates(), IsEmpty());
}

TEST(Graph, AReplacementThatCodegenDoesNotKnowIsAnError) {
  const task& t = builtin("mlp");
  graph g(t);
  g.rewrite(0, {.by = {"cudal1::example", g.step_at(0).use->arguments}, .certificate = ""});
  const auto result = lower(g, for_cpu());
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, testing::HasSubstr("cudal1::example"));
}

}  // namespace
}  // namespace cudal1::test
