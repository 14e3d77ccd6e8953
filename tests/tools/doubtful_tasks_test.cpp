// What the tables say of variants that were not confirmed, and of tasks that have no one right answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/tools_fixture.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr const char* why = "the task's own y in float32 differs from the exact result by 7.1% (root mean square)";

class doubtful_tasks : public testing::Test {
 protected:
  temporary_folder folder_;
  // With the lines joined, since they are wrapped.
  std::string run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--data", folder_.path()});
    const auto p = run_cudal1(arguments, {{"COLUMNS", "400"}});
    EXPECT_EQ(p.code, 0) << p.err;
    return p.out;
  }
};

TEST_F(doubtful_tasks, what_was_not_confirmed_is_shown_as_such_and_counts_as_1) {
  prepare_doubtful_store(folder_.path(), "");
  for (const auto& command : std::vector<std::vector<std::string>>{{"best"}, {"best", "--experiment", "e1"}}) {
    const auto text = run(command);
    EXPECT_THAT(text, ContainsRegex("softmax +3.00 ms +3.00 ms +at least 2.71x, not confirmed +1 +[0-9a-f]{12} +not "
                                    "confirmed: fuse"));
    EXPECT_THAT(text, HasSubstr("1 of 2 tasks beat the reference by more than their interval; geometric mean 2.00x"));
    EXPECT_THAT(text, HasSubstr("In 1 task a variant is faster by its whole interval, but was not confirmed"));
    EXPECT_THAT(text, HasSubstr("it counts as 1 in the means"));
    EXPECT_THAT(text, Not(HasSubstr("nothing faster was confirmed")));
    EXPECT_THAT(text, Not(HasSubstr("ill-conditioned")));
  }
  EXPECT_THAT(run({"report"}), HasSubstr("In 1 task a variant is faster by its whole interval, but was not confirmed"));
  const auto document = json::parse(run({"best", "--json"}));
  ASSERT_TRUE(holds(document));
  EXPECT_EQ(at(*document, "tasks.1.unconfirmed.speedup").as_number(), 3);
  EXPECT_EQ(at(*document, "tasks.1.unconfirmed.speedup_interval.low").as_number(), 2.71);
  EXPECT_EQ(at(*document, "tasks.1.speedup").as_number(), 1);
  EXPECT_TRUE(at(*document, "tasks.0.unconfirmed").is_null());
}

TEST_F(doubtful_tasks, ill_conditioned_ones_are_marked_and_the_means_are_also_without_them) {
  prepare_doubtful_store(folder_.path(), why);
  const auto table = run({"best"});
  EXPECT_THAT(table, ContainsRegex("softmax .*at least 2.71x, not confirmed † "));
  EXPECT_THAT(table, Not(ContainsRegex("diagonal_matmul [^\n]*†")));
  EXPECT_THAT(table, HasSubstr("† 1 task is ill-conditioned: PyTorch's own result in float32 is further than 1e-2"));
  EXPECT_THAT(table, HasSubstr("geometric mean 2.00x"));
  EXPECT_THAT(table, HasSubstr("Without it the geometric mean is 4.00x."));
  const auto report = run({"report"});
  EXPECT_THAT(report, HasSubstr("† 1 task is ill-conditioned"));
  EXPECT_THAT(report, ContainsRegex("all +2 .* 2.00x"));
  EXPECT_THAT(report, ContainsRegex("all but ill-conditioned +1 .* 4.00x"));
  EXPECT_THAT(run({"best", "softmax"}), HasSubstr(std::string("This task is ill-conditioned: ") + why + "."));
}

TEST_F(doubtful_tasks, those_whose_own_program_was_timed_in_parts_are_marked) {
  prepare_doubtful_store(folder_.path(), "", 4);
  const auto table = run({"best"});
  EXPECT_THAT(table, ContainsRegex("softmax .*at least 2.71x, not confirmed ‡ "));
  EXPECT_THAT(table, Not(ContainsRegex("diagonal_matmul [^\n]*‡")));
  EXPECT_THAT(table, HasSubstr("‡ 1 task: the task's own program needs more memory than a runner has."));
  EXPECT_THAT(table, HasSubstr("the speedup is not one over a call of PyTorch as a whole, which was not timed."));
  EXPECT_THAT(run({"report"}), HasSubstr("‡ 1 task: the task's own program needs more memory"));
  EXPECT_THAT(
      run({"best", "softmax"}),
      HasSubstr("This task's own program was timed in 4 parts of its batch: as a whole it needs more memory than "
                "a runner has."));
}

}  // namespace
}  // namespace cudal1::cli
