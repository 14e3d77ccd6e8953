// Tasks on which one proof alone decides, each beside a twin on which it must not apply. What a proof makes of a task
// is judged by the gates.
#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/assembly.hpp"
#include "policy/search/starting_schedules.hpp"
#include "tests/policy/judged_task.hpp"
#include "tests/policy/proof_cases.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

schedule proofs_of(const task& t) {
  return partitions_of(t, for_cpu()).proofs;
}

std::vector<std::string> names_of(const schedule& s) {
  std::vector<std::string> out;
  for (const auto& m : s.moves)
    if (out.empty() || out.back() != m.name) out.push_back(m.name);
  return out;
}

std::string what_is_computed(const aten_step& s) {
  std::string out = s.op;
  for (const auto& [name, value] : s.args)
    out += " " + name + "=" + value.text();
  return out;
}

class proof_tasks : public testing::TestWithParam<proof_case> {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
};

INSTANTIATE_TEST_SUITE_P(all, proof_tasks, testing::ValuesIn(proof_cases()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(proof_tasks, are_proved_and_accepted) {
  const task t = read(GetParam().applies);
  const schedule plan = proofs_of(t);
  std::vector<std::string> names = names_of(plan);
  std::erase_if(names, [](const std::string& name) { return name == "drop"; });  // of what a rewriting leaves dead
  if (names.empty()) names = names_of(plan);
  EXPECT_THAT(names, ElementsAre(GetParam().move));
  const auto made = lower(t, plan, for_cpu());
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_FALSE(made->certificates.empty());
  std::set<std::string> results;  // of set-up, which computes nothing twice
  for (const auto& each : made->checked.text.setup)
    EXPECT_TRUE(results.insert(what_is_computed(std::get<aten_step>(each))).second);
  judged_task judged(t);
  EXPECT_EQ(judged.problem_of(made->checked.text), "") << print_schedule(plan);
}

// A rewritten layer is a part like any other; only what became an operator of our own is in none.
TEST_P(proof_tasks, are_cut_into_parts_that_make_the_whole) {
  const task t = read(GetParam().applies);
  judged_task judged(t);
  for (const auto* target : {&for_cpu(), &for_cuda()}) {
    const auto parts = partitions_of(t, *target);
    const std::string move = GetParam().move;
    if (move == "fold_into_layer" || move == "compose_linear") {
      EXPECT_THAT(parts.replaced, IsEmpty());
    }
    known_parts known;
    for (const task* part : distinct_tasks(parts)) {
      judged_task own(*part);
      EXPECT_EQ(own.problem_of(part->reference.text), "") << canonical_text(*part);
      const auto whole = whole_schedules(*part, *target);
      known[part->id] = known_part{whole.empty() ? schedule() : whole.front(), 5, 10};
    }
    for (const auto& whole : assemble(t, *target, parts, known)) {
      const auto made = lower(t, whole.plan, *target);
      ASSERT_TRUE(made) << made.error().message;
      EXPECT_EQ(judged.problem_of(made->checked.text), "") << whole.name << ": " << print_schedule(whole.plan);
    }
  }
}

TEST_P(proof_tasks, have_twins_without_the_proof) {
  const task t = read(GetParam().twin);
  EXPECT_THAT(names_of(proofs_of(t)), Not(Contains(GetParam().move)));
}

// On a GPU a library's convolution adds its bias in a pass of its own.
TEST(proof_targets, a_convolution_without_bias_gets_one_where_that_costs_nothing) {
  const task t = read({{"x [2, 3, 9, 9]"},
                       {"w [4, 3, 3, 3]", "s [4, 1, 1]"},
                       {R"(l = conv2d("input": "x", "weight": "w"))", R"(y = add.Tensor("self": "l", "other": "s"))"}});
  EXPECT_TRUE(lower(t, *parse_schedule("fold_into_layer(step=1)"), for_cpu()));
  const auto refused = lower(t, *parse_schedule("fold_into_layer(step=1)"), for_cuda());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("would be a pass of its own"));
}

}  // namespace
}  // namespace cudal1::test
