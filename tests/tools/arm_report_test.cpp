#include "tools/cli/arms/arm_report.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"
#include "config/base/text_file.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1::cli {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr const char* plan_text = R"(
name = "two tasks"
seeds = [1]
answers = 2
samples = [1, 2]
[tasks]
held_out_operators = ["aten::softmax.int"]
[prompts]
answers = 2
[[arms]]
name = "first"
[[arms]]
name = "second"
prompt = "contrastive"
[[arms]]
name = "third"
prompt = "shuffled"
)";

arm_verdict verdict_of(const std::string& arm, const std::string& task, int64_t number, double score) {
  arm_verdict v;
  static_cast<answer_key&>(v) = {answer_form::schedule, arm, task, 1, number};
  v.result = score > 0 ? outcome::correct : outcome::wrong_answer;
  v.reason = score > 0 ? "" : "element 17 is wrong";
  v.score = score;
  v.program = "p" + std::to_string(score);
  v.is_measured = true;
  v.environment_class = "one";
  return v;
}

comparison_head head_of(const experiment_plan& plan) {
  comparison_head head;
  head.plan = plan.sha256;
  head.held_out = {"a", "b"};
  return head;
}

TEST(records, survive_a_line_that_was_cut_off) {
  const temporary_folder folder;
  {
    auto records = *arm_records::open(folder.path());
    arm_answer a;
    static_cast<answer_key&>(a) = {answer_form::program, "first", "a", 1, 3};
    a.text = "two\nlines";
    ASSERT_TRUE(records.add({.answer = a}));
    ASSERT_TRUE(records.add({.verdict = verdict_of("first", "a", 0, 2)}));
    arm_run run;
    run.number = 1;
    ASSERT_TRUE(records.add({.run = run}));
  }
  const std::string file = folder.path() + "/records.jsonl";
  const auto whole = std::filesystem::file_size(file);
  std::ofstream(file, std::ios::app) << R"({"verdict":{"form":"sched)";
  EXPECT_EQ(arm_records::read(folder.path())->verdicts().size(), 1U);
  auto records = *arm_records::open(folder.path());
  EXPECT_EQ(std::filesystem::file_size(file), whole);
  EXPECT_EQ(records.answers().begin()->second.text, "two\nlines");
  EXPECT_EQ(records.answers().begin()->second.number, 3);
  EXPECT_EQ(records.runs().size(), 1U);
  ASSERT_TRUE(records.add({.verdict = verdict_of("first", "a", 1, 0)}));
  EXPECT_EQ(arm_records::read(folder.path())->verdicts().size(), 2U);
  // What is known of a program holds for its task and class of environments.
  const auto* known = records.known("a", "p2.000000", "one");
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->score, 2);
  EXPECT_EQ(records.known("b", "p2.000000", "one"), nullptr);
  EXPECT_EQ(records.known("a", "p2.000000", "another"), nullptr);
  std::ofstream(file, std::ios::app) << "no JSON\n";
  EXPECT_EQ(arm_records::read(folder.path()).error().code, errc::corrupt);
}

TEST(a_report, has_shares_scores_and_what_deviates) {
  const auto plan = *read_plan(plan_text, "plan");
  const temporary_folder folder;
  auto records = *arm_records::open(folder.path());
  const auto add = [&](const char* arm, const char* task, double first, double second) {
    ASSERT_TRUE(records.add({.verdict = verdict_of(arm, task, 0, first)}));
    ASSERT_TRUE(records.add({.verdict = verdict_of(arm, task, 1, second)}));
  };
  add("first", "a", 0, 2);
  add("first", "b", 0, 0);
  add("second", "a", 4, 4);
  add("second", "b", 1.5, 0);
  add("third", "a", 0, 0);
  auto of_other = verdict_of("third", "b", 0, 0);
  of_other.environment_class = "another";
  of_other.hack = "writes to an input";
  ASSERT_TRUE(records.add({.verdict = of_other}));
  const auto r = report_of(plan, head_of(plan), records);
  ASSERT_EQ(r.rows.size(), 3U);
  EXPECT_EQ(r.rows[0].correct, 1);
  EXPECT_DOUBLE_EQ(r.rows[0].at[0].correct->value, 0.25);
  EXPECT_DOUBLE_EQ(r.rows[0].at[1].correct->value, 0.5);
  EXPECT_NEAR(r.rows[0].at[1].best->value, std::sqrt(2.0), 1e-12);
  EXPECT_DOUBLE_EQ(r.rows[0].mean->value, 0.5);
  EXPECT_NEAR(r.rows[1].best_ratio->value, std::sqrt(4.0 * 1.5 / 2), 1e-12);
  EXPECT_DOUBLE_EQ(r.rows[1].mean_difference->value, (4 + 0.75) / 2 - 0.5);
  EXPECT_FALSE(r.rows[2].at[0].best) << "nothing was correct";
  EXPECT_EQ(r.rows[2].hacks.at("writes to an input"), 1);
  EXPECT_EQ(r.rows[2].reasons.front(), "3x element # is wrong");
  EXPECT_FALSE(r.is_complete);
  EXPECT_THAT(r.deviations, Contains(HasSubstr("third: 3 of 4 answers are judged")));
  EXPECT_THAT(r.deviations, Contains(HasSubstr("2 classes of environments")));
  terminal plain;
  const auto text = text_of(r, plain);
  EXPECT_THAT(text, HasSubstr(plan.sha256));
  EXPECT_THAT(text, HasSubstr("no evidence"));
  EXPECT_THAT(text, HasSubstr("1/2 2.00x"));
  EXPECT_THAT(text, HasSubstr("wrong_answer 3; hack attempts: writes to an input 1"));
  EXPECT_THAT(text, Not(HasSubstr("Nothing deviated")));
}

TEST(a_report, counts_answers_by_how_far_they_came) {
  const auto plan = *read_plan(plan_text, "plan");
  const temporary_folder folder;
  auto records = *arm_records::open(folder.path());
  const auto add = [&](const char* arm, const char* task, int64_t number, outcome result,
                       std::optional<bool> readable) {
    auto v = verdict_of(arm, task, number, result == outcome::correct ? 2 : 0);
    v.result = result;
    v.is_readable = readable;
    ASSERT_TRUE(records.add({.verdict = v}));
  };
  add("first", "a", 0, outcome::invalid, false);
  add("first", "a", 1, outcome::invalid, true);
  add("first", "b", 0, outcome::compile_error, true);
  add("first", "b", 1, outcome::wrong_answer, true);
  add("second", "a", 0, outcome::correct, true);
  add("second", "a", 1, outcome::correct, std::nullopt);
  const auto r = report_of(plan, head_of(plan), *arm_records::read(folder.path()));
  EXPECT_EQ(r.rows[0].readable, 3);
  EXPECT_EQ(r.rows[0].legal, 2);
  EXPECT_EQ(r.rows[0].compiled, 1);
  EXPECT_EQ(r.rows[1].readable, std::nullopt) << "an earlier version did not say it of one";
  EXPECT_EQ(r.rows[1].compiled, 2);
  EXPECT_THAT(text_of(r, terminal()), testing::ContainsRegex("first +4 +3 +2 +1 +0"));
}

TEST(a_report, is_of_the_plan_that_the_comparison_was_begun_with) {
  const temporary_folder folder;
  EXPECT_EQ(read_comparison(folder.path()).error().code, errc::not_found);
  const auto plan = *read_plan(plan_text, "plan");
  std::ofstream(folder.path() + "/plan.toml") << plan_text;
  std::ofstream(folder.path() + "/comparison.json") << to_text(head_of(plan));
  EXPECT_EQ(read_comparison(folder.path())->rows.size(), 3U);
  std::ofstream(folder.path() + "/plan.toml", std::ios::app) << "# one more answer would be nice\n";
  EXPECT_EQ(read_comparison(folder.path()).error().code, errc::corrupt);
}

}  // namespace
}  // namespace cudal1::cli
