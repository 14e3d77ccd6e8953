// Every proof of the moves holds by another way to compute; what is not so is found out.
#include "policy/proof_check/proof_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/graph/joined_layers.hpp"
#include "policy/moves/move_registry.hpp"
#include "policy/search/assembly.hpp"
#include "tests/policy/proof_cases.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

graph after(const task& t, const schedule& s, const lowering_target& target = for_cpu()) {
  graph g(t);
  for (const auto& m : s.moves)
    if (auto applied = apply_move(g, m, target); !applied) throw std::runtime_error(applied.error().message);
  return g;
}

// One line for each step that does not hold.
std::vector<std::string> doubts(const graph& g) {
  std::vector<std::string> out;
  for (const auto& s : check_proofs(g))
    if (s.found != proof_finding::holds)
      out.push_back(fmt::format("step {} {}: {}", s.step,
                                s.found == proof_finding::refuted ? "is wrong" : "was not decided", s.why));
  return out;
}

// A residual layer with a ReLU whose input is drawn from [0, 1), though nothing says that it must be.
const short_task k_plain = {
    {"x [12, 16]", "z [12, 16]"},
    {"w [24, 16]", "b [24]"},
    {R"(r = relu("self": "x"))", R"(a = add.Tensor("self": "r", "other": "z"))",
     R"(l = linear("input": "a", "weight": "w", "bias": "b"))", R"(m = mul.Scalar("self": "l", "other": 2))",
     R"(y = softmax.int("self": "m", "dim": 1))"}};

TEST(proof_check, finds_nothing_where_nothing_was_rewritten) {
  const task t = read(k_plain);
  EXPECT_THAT(check_proofs(graph(t)), IsEmpty());
}

TEST(proof_check, refutes_what_holds_only_for_how_inputs_are_drawn) {
  const task t = read(k_plain);
  graph g(t);
  g.drop(0, "x", "x is never negative");
  const auto found = check_proofs(g);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].found, proof_finding::refuted);
  EXPECT_THAT(found[0].why, HasSubstr("by the task and"));
  const auto refused = refuse_wrong_proofs(found);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("step 0 is wrong"));
}

TEST(proof_check, refutes_a_fold_that_forgets_the_bias) {
  const task t = read(k_plain);
  graph g(t);
  operator_use unscaled = *g.step_at(2).use;
  g.rewrite(2, {.by = unscaled, .certificate = "twice the layer", .becomes = "m"});
  g.drop(3, "l", "step 3 is folded into step 2");
  EXPECT_THAT(doubts(g), SizeIs(2));
}

TEST(proof_check, refutes_a_shift_that_a_reader_sees) {
  const task t = read(k_plain);
  graph g(t);
  g.drop(1, "r", "z shifts rows");  // a linear layer reads it
  ASSERT_THAT(doubts(g), SizeIs(1));
  EXPECT_THAT(doubts(g)[0], HasSubstr("step 1 is wrong"));
}

// Two layers of one input whose slices may be exchanged.
TEST(proof_check, refutes_slices_in_the_wrong_order) {
  const task t = read({{"x [12, 16]"},
                       {"w [8, 16]", "v [8, 16]", "b [8]"},
                       {R"(l = linear("input": "x", "weight": "w", "bias": "b"))",
                        R"(m = linear("input": "x", "weight": "v"))", R"(y = sub.Tensor("self": "l", "other": "m"))"}});
  const int layers[] = {0, 1};
  auto joined = with_joined_layers(t, layers);
  ASSERT_TRUE(joined) << joined.error().message;
  graph right(t);
  ASSERT_TRUE(right.prepare(joined->with, joined->certificate));
  EXPECT_THAT(doubts(right), IsEmpty());
  EXPECT_THAT(check_proofs(right), SizeIs(2)) << "both slices";
  program exchanged = joined->with->reference.text;
  std::swap(std::get<aten_step>(exchanged.steps[1]).results, std::get<aten_step>(exchanged.steps[2]).results);
  auto wrong = std::make_shared<task>(*joined->with);
  wrong->reference = *check_program(std::move(exchanged));
  graph g(t);
  ASSERT_TRUE(g.prepare(wrong, joined->certificate));
  ASSERT_THAT(doubts(g), SizeIs(2));
  EXPECT_THAT(doubts(g)[0], HasSubstr("step 1 is wrong"));
}

TEST(proof_check, refutes_a_dead_step_that_is_read) {
  const task t = read(k_plain);
  graph g(t);
  g.drop(3, "", "nothing reads m");
  ASSERT_THAT(doubts(g), SizeIs(1));
  EXPECT_THAT(doubts(g)[0], HasSubstr("step 4 reads m"));
}

TEST(proof_check, says_what_it_cannot_compute) {
  const task t = read({{"x [12, 16]"}, {}, {R"(c = cumprod("self": "x", "dim": 1))", R"(y = relu("self": "c"))"}});
  graph g(t);
  g.drop(1, "c", "c is never negative");
  ASSERT_THAT(doubts(g), SizeIs(1));
  EXPECT_THAT(doubts(g)[0], HasSubstr("was not decided: aten::cumprod has no definition here"));
  EXPECT_THAT(print_checked(check_proofs(g)), HasSubstr("step 1 could not be checked: aten::cumprod"));
  EXPECT_TRUE(refuse_wrong_proofs(check_proofs(g))) << "what is not known to be wrong is measured";
}

// The list of indices has no tensor for the first dimension.
TEST(proof_check, passes_over_a_place_of_a_list_without_a_tensor) {
  const task t =
      read({{"x [12, 16]"},
            {"w [24, 16]", "v [9, 16]"},
            {R"(i = argmax("self": "v", "dim": 0))", R"(u = index.Tensor("self": "w", "indices": [null, "i"]))",
             R"(y = linear("input": "x", "weight": "u"))"}});
  EXPECT_THAT(graph(t).step_at(1).operands(), ElementsAre("w", "i"));
  const graph g = after(t, partitions_of(t, for_cpu()).proofs);
  ASSERT_THAT(doubts(g), SizeIs(1));
  EXPECT_THAT(doubts(g)[0], HasSubstr("aten::index.Tensor has no definition here"));
}

class proofs : public ::testing::TestWithParam<proof_case> {};

INSTANTIATE_TEST_SUITE_P(all, proofs, ::testing::ValuesIn(proof_cases()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(proofs, hold) {
  const task t = read(GetParam().applies);
  for (const auto* target : {&for_cpu(), &for_cuda()}) {
    const graph g = after(t, partitions_of(t, *target).proofs, *target);
    EXPECT_TRUE(target != &for_cpu() || !check_proofs(g).empty());
    EXPECT_THAT(doubts(g), IsEmpty());
  }
}

TEST(proof_check, holds_for_products_in_three_parts) {
  const task t = read(k_plain);
  const graph g = after(t, *parse_schedule("precision(step=2,as=tf32x3)"), for_cuda());
  EXPECT_THAT(doubts(g), IsEmpty());
}

// The proofs of the built-in tasks, at their sizes.
TEST(proof_check, holds_for_the_built_in_tasks) {
  int checked = 0;
  for (const task& t : builtin_tasks()) {
    const graph g = after(t, partitions_of(t, for_cpu()).proofs);
    for (const auto& s : check_proofs(g)) {
      EXPECT_NE(s.found, proof_finding::refuted) << t.name << ", step " << s.step << ": " << s.why;
      ++checked;
    }
  }
  EXPECT_GT(checked, 3);
}

}  // namespace
}  // namespace cudal1::test
