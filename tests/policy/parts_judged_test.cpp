// What is put together from parts computes what the task does, and parts are tasks that the gates can judge.
#include <set>

#include <gtest/gtest.h>

#include "policy/search/assembly.hpp"
#include "policy/search/starting_schedules.hpp"
#include "tests/policy/judged_task.hpp"
#include "tests/policy/pattern_tasks.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

class judged_parts : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
  const lowering_target& target() const { return target_named(GetParam()); }

  static std::vector<task> tasks() {
    std::vector<task> out = shrunk_builtin_tasks();
    out.push_back(residual_network(2));
    out.push_back(chained_network(2));
    for (auto& p : pattern_tasks("float32"))
      out.push_back(std::move(p.what));
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(all, judged_parts, testing::Values("cpu", "cuda"),
                         [](const auto& each) { return std::string(each.param); });

program lowered(const task& t, const schedule& s, const lowering_target& target) {
  auto made = lower(t, s, target);
  if (!made) throw std::runtime_error(t.name + ": " + made.error().message);
  return std::move(made->checked.text);
}

TEST_P(judged_parts, are_accepted_with_their_own_program_and_with_kernels) {
  std::set<std::string> seen;
  for (const auto& t : tasks()) {
    const auto parts = partitions_of(t, target());
    for (const task* part : distinct_tasks(parts)) {
      if (!seen.insert(part->id).second) continue;
      judged_task judged(*part);
      EXPECT_EQ(judged.problem_of(part->reference.text), "") << t.name << ": " << canonical_text(*part);
      const auto whole = whole_schedules(*part, target());
      if (whole.empty()) continue;
      EXPECT_EQ(judged.problem_of(lowered(*part, whole.front(), target())), "")
          << t.name << ": " << canonical_text(*part) << "\n"
          << print_schedule(whole.front());
    }
  }
}

TEST_P(judged_parts, put_together_are_accepted) {
  for (const auto& t : tasks()) {
    const auto parts = partitions_of(t, target());
    known_parts known;
    for (const task* part : distinct_tasks(parts))
      if (const auto whole = whole_schedules(*part, target()); !whole.empty()) known[part->id] = {whole.front(), 5, 10};
    judged_task judged(t);
    for (const auto& whole : assemble(t, target(), parts, known))
      EXPECT_EQ(judged.problem_of(lowered(t, whole.plan, target())), "")
          << t.name << ", " << whole.name << ": " << print_schedule(whole.plan);
  }
}

}  // namespace
}  // namespace cudal1::test
