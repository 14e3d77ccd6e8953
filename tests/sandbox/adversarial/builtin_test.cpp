// Every built-in task's own program, and its variant with a whole schedule, pass on all draws.
#include "attempt.hpp"

#include "policy/search/starting_schedules.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::testing_adversarial {
namespace {

class builtin_tasks : public adversarial_test {
 protected:
  // Checks it without timing.
  static finding check(const task& t, const checked_program& program) {
    const auto code = compiler->compile(program);
    if (!code) return {outcome::compile_error, code.error().message, "compiler"};
    if (const auto opened = session->open_task(t); !opened)
      return {outcome::quarantined, opened.error().message, "infrastructure"};
    const check_plan plan = plan_check(t, {});
    const auto report = session->check(program, *code, plan);
    if (!report) return {outcome::quarantined, report.error().message, "infrastructure"};
    const judgement j = judge(t, plan, *report, {});
    return {j.result, j.reason, "check"};
  }
};

TEST_F(builtin_tasks, pass_every_draw_as_written_and_with_whole_schedules) {
  int scheduled = 0;
  for (const task& t : test::shrunk_builtin_tasks()) {
    SCOPED_TRACE(t.name);
    const finding own = check(t, t.reference);
    EXPECT_EQ(own.result, outcome::correct) << own;
    const auto whole = whole_schedules(t, test::for_cpu());
    if (whole.empty()) continue;
    auto lowered = lower(t, whole.front(), test::for_cpu());
    ASSERT_TRUE(lowered) << lowered.error().message;
    auto variant = check_program(std::move(lowered->checked.text));
    ASSERT_TRUE(variant) << variant.error().message;
    const finding f = check(t, *variant);
    EXPECT_EQ(f.result, outcome::correct) << print_schedule(whole.front()) << ": " << f;
    ++scheduled;
  }
  EXPECT_GE(scheduled, 28);
}

}  // namespace
}  // namespace cudal1::testing_adversarial
