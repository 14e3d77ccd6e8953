// Which of a task's baselines a best variant is compared with, and which have to be measured (again).
#include "tools/cli/report/against.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/baseline/host_pace.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/report.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

baseline_record measured(const std::string& kind, const std::string& environment_id, double call_us) {
  baseline_record b;
  b.kind = kind;
  b.environment_id = environment_id;
  b.call_us = call_us;
  b.call_interval = {call_us * 0.99, call_us * 1.01};
  b.device_us = call_us / 2;
  return b;
}

baseline_record beside(baseline_record b, const std::string& variant, double variant_us) {
  b.variant = variant;
  b.variant_us = variant_us;
  b.variant_device_us = variant_us / 2;
  b.variant_interval = {variant_us * 0.98, variant_us * 1.02};
  return b;
}

// h200-a and h200-c are two devices of one host.
environment of_host(const std::string& id) {
  return {.device = "cuda:" + id, .model = id.substr(0, 4), .details = id == "h200-c" ? "h200-a" : id, .id = id};
}

const compared best_on_h200{"best", "h200-a", 50, 30};

TEST(against, a_base_measured_beside_the_variant_is_preferred_with_both_times) {
  const std::vector<baseline_record> records = {
      beside(measured("eager", "h200-b", 400), "best", 40), beside(measured("eager", "h100", 900), "best", 90),
      beside(measured("eager", "h200-a", 300), "another", 60), measured("graph", "h200-a", 100)};
  const auto a = compare(records, "eager", best_on_h200, of_host);
  EXPECT_EQ(a.problem, "");
  EXPECT_TRUE(a.beside);
  EXPECT_EQ(a.environment_id, "h200-b") << "another machine with that GPU; of the H100 nothing is compared";
  EXPECT_DOUBLE_EQ(a.speedup, 10);
  EXPECT_EQ(a.variant_us, 40);
  EXPECT_EQ(a.variant_device_us, 20);
  EXPECT_LT(a.speedup_interval.low, 9.8);
  EXPECT_GT(a.speedup_interval.low, 9.7);
  EXPECT_EQ(format_against(a), "10.0x [9.8, 10.2]");
}

TEST(against, notes_about_doubtful_times_are_kept) {
  auto doubtful = beside(measured("eager", "h200-a", 300), "best", 50);
  doubtful.notes = {"the host was slow"};
  EXPECT_THAT(compare(std::vector{doubtful, measured("eager", "h200-b", 400)}, "eager", best_on_h200, of_host).notes,
              ElementsAre("the host was slow"));
}

TEST(against, a_report_counts_doubtful_times) {
  search_report r;
  r.against = "eager";
  r.over.emplace().measured = 2;
  for (const bool doubtful : {true, false}) {
    auto& a = r.tasks.emplace_back().against.emplace();
    a.base_us = 20;
    if (doubtful) a.notes = {"the host was slow", "so was the device"};
  }
  EXPECT_THAT(print_against(r), HasSubstr("1 time of eager with notes"));
  r.tasks.erase(r.tasks.begin());
  EXPECT_THAT(print_against(r), Not(HasSubstr("notes")));
}

search_report one_row_over_eager(double program_us) {
  search_report r;
  r.against = "eager";
  r.over.emplace().measured = 1;
  auto& row = r.tasks.emplace_back();
  row.name = "sigmoid";
  row.is_reference = false;
  row.speedup = 6;
  row.speedup_interval = {5.9, 6.1};
  auto& a = row.against.emplace();
  a.kind = "eager";
  a.base_us = 20;
  a.variant_us = 10;
  a.speedup = 2;
  a.speedup_interval = {1.9, 2.1};
  a.beside = true;
  a.program_us = program_us;
  return r;
}

TEST(against, a_program_far_from_eager_is_said_beside_the_speedup_over_it) {
  for (const auto& [program_us, said] : {std::pair{60.0, "3.00x"}, std::pair{10.0, "0.500x"}}) {
    const auto r = one_row_over_eager(program_us);
    EXPECT_THAT(markdown_table(r),
                AllOf(HasSubstr("| program/eager |"), HasSubstr(std::string("| 6.00x [5.90, 6.10] | ") + said + " |")));
    EXPECT_THAT(print_against(r),
                HasSubstr("1 task where the task's own program and eager are more than 1.5 times apart"));
  }
  auto stored = one_row_over_eager(0);
  stored.tasks[0].reference_us = 60;
  EXPECT_THAT(markdown_table(stored), HasSubstr("| 3.00x |")) << "of the verdicts";
  stored.tasks[0].against->program_us = 20;
  EXPECT_THAT(markdown_table(stored), Not(HasSubstr("program/eager"))) << "of eager's minutes";
  for (const double program_us : {0.0, 14.0, 29.0}) {
    const auto r = one_row_over_eager(program_us);
    EXPECT_THAT(markdown_table(r), Not(HasSubstr("program/eager")));
    EXPECT_THAT(print_against(r), Not(HasSubstr("apart")));
  }
}

TEST(against, the_speedup_over_pytorch_comes_first) {
  EXPECT_THAT(markdown_table(one_row_over_eager(20)), HasSubstr("| sigmoid | 2.00x [1.90, 2.10] | 20.0 µs |"));
}

TEST(against, the_table_has_both_times_of_the_ratio) {
  auto r = one_row_over_eager(20);
  r.tasks[0].best_us = 12;  // of the verdict
  const auto text = markdown_table(r);
  EXPECT_THAT(text, HasSubstr("| over eager | eager | best with eager |"));
  EXPECT_THAT(text, HasSubstr("| 2.00x [1.90, 2.10] | 20.0 µs | 10.0 µs |")) << "20 / 10, not 20 / 12";
}

TEST(against, a_slow_program_is_named_with_how_much_longer_it_takes) {
  EXPECT_THAT(print_against(one_row_over_eager(26)),
              HasSubstr("The task's own program takes longer than eager in 1 of 1 task, up to 1.30 times as long "
                        "(sigmoid)"));
  EXPECT_THAT(print_against(one_row_over_eager(20)),
              HasSubstr("The task's own program takes at most 2% longer than eager in the 1 task."));
}

TEST(report, its_counts_are_of_the_tasks_that_were_evaluated) {
  search_report r;
  for (const char* name : {"faster", "perhaps_faster", "reference", "not_reached"})
    r.tasks.emplace_back().name = name;
  for (std::size_t i = 0; i < 3; ++i)
    r.tasks[i].reference_us = 20;
  r.tasks[0].is_reference = r.tasks[1].is_reference = false;
  r.tasks[0].beats_reference = true;
  r.beat_reference = 1;
  EXPECT_THAT(print_summary(r), HasSubstr("1 of the 3 tasks evaluated (1 not reached) beat the reference by more than "
                                          "their interval, 1 more by less; geometric mean"));
  r.tasks.pop_back();
  EXPECT_THAT(print_summary(r), HasSubstr("1 of 3 tasks beat the reference by more than their interval, 1 more by"));
}

TEST(report, a_task_whose_evaluations_all_failed_was_reached) {
  search_report r;
  r.tasks.emplace_back().evaluations = 6;
  EXPECT_THAT(print_summary(r), HasSubstr("0 of 1 task beat the reference"));
  r.tasks.emplace_back();
  EXPECT_THAT(print_summary(r), HasSubstr("0 of the 1 task evaluated (1 not reached) beat the reference"));
}

TEST(report, a_narrow_table_keeps_tasks_and_variants) {
  auto r = one_row_over_eager(60);
  auto& row = r.tasks[0];
  row.name = "scaled_masked_softmax";
  row.variant = "0123456789abcdef";
  row.schedule = "fuse(steps=0..1); block(group=0, threads=256)";
  for (const std::size_t width : {80, 100, 160}) {
    const auto text = print_table(r, terminal{.width = width});
    EXPECT_THAT(text, AllOf(HasSubstr(width < 100 ? "scaled_masked_so" : "scaled_masked_softmax"),
                            HasSubstr("0123456789ab"), HasSubstr("6.00x [")))
        << text;
    for (const auto& line : split_lines(text))
      EXPECT_LE(display_width(line), width) << line;
  }
}

TEST(against, a_task_written_by_hand_is_to_be_measured_like_others) {
  auto r = one_row_over_eager(20);
  r.tasks[0].against->problem = "not measured";
  EXPECT_THAT(print_against(r), HasSubstr("1 task not measured with eager: use `cudal1 baseline --kinds eager`"));
}

TEST(against, a_device_time_that_differs_from_the_confirmed_one_is_noted) {
  verdict then, now;
  then.variant_device_us = 284;
  then.reference_device_us = now.reference_device_us = 337;
  now.variant_device_us = 226;
  EXPECT_THAT(changes_on_device(then, now),
              ElementsAre(AllOf(HasSubstr("the variant"), HasSubstr("226 µs here"), HasSubstr("284 µs when"))));
  now.variant_device_us = 280;
  EXPECT_THAT(changes_on_device(then, now), IsEmpty());
  then.reference_device_us = 300;
  EXPECT_THAT(changes_on_device(then, now), ElementsAre(HasSubstr("own program")));
  now = {};
  EXPECT_THAT(changes_on_device(then, now), IsEmpty()) << "no device times";
}

TEST(against, a_variants_time_includes_the_cost_of_a_call_from_python) {
  EXPECT_EQ(call_time_from_python(17, 10, 12), 22);
  EXPECT_EQ(call_time_from_python(900, 700, 12), 900) << "it waits for the host anyway";
  EXPECT_EQ(call_time_from_python(900, 0, 12), 900) << "no device time";
  auto record = beside(measured("eager", "h200-a", 300), "best", 50);
  record.variant_device_us = 45;
  record.python_us = 15;
  const auto a = compare(std::vector{record}, "eager", best_on_h200, of_host);
  EXPECT_EQ(a.variant_us, 60);
  EXPECT_DOUBLE_EQ(a.speedup, 5);
  EXPECT_GT(a.speedup_interval.high, 5);
  EXPECT_LT(a.speedup_interval.high, 5.5);
}

TEST(against, next_the_newest_of_the_same_environment_with_the_verdicts_time_and_a_star) {
  const std::vector<baseline_record> records = {measured("eager", "h200-a", 300), measured("eager", "h200-a", 250),
                                                measured("eager", "h200-b", 400)};
  const auto a = compare(records, "eager", best_on_h200, of_host);
  EXPECT_FALSE(a.beside);
  EXPECT_DOUBLE_EQ(a.speedup, 5);
  EXPECT_EQ(a.variant_us, 50);
  EXPECT_EQ(format_against(a), "5.00x*");
}

TEST(against, last_a_device_like_the_variants_own) {
  std::vector<baseline_record> records = {measured("eager", "h200-c", 200)};
  const auto a = compare(records, "eager", best_on_h200, of_host);
  EXPECT_EQ(a.environment_id, "h200-c");
  EXPECT_EQ(format_against(a), "4.00x*");
  records.insert(records.begin(), measured("eager", "h200-a", 250));
  EXPECT_EQ(compare(records, "eager", best_on_h200, of_host).environment_id, "h200-a");
}

TEST(against, a_base_that_is_missing_or_failed_or_of_another_host_gives_no_ratio) {
  EXPECT_EQ(compare({}, "eager", best_on_h200, of_host).problem, "not measured");
  const std::vector<baseline_record> elsewhere = {measured("eager", "h200-b", 400)};
  EXPECT_EQ(compare(elsewhere, "eager", best_on_h200, of_host).problem, "not measured");
  std::vector<baseline_record> failed = {measured("graph", "h200-a", 0)};
  failed[0].problem = "the capture failed";
  const auto a = compare(failed, "graph", best_on_h200, of_host);
  EXPECT_EQ(a.problem, "the capture failed");
  EXPECT_EQ(format_against(a), "-");
}

TEST(against, the_reference_itself_is_not_improved) {
  const std::vector<baseline_record> records = {measured("eager", "h200-a", 300)};
  const auto a = compare(records, "eager", {"", "h200-a", 50, 30}, of_host);
  EXPECT_EQ(a.base_us, 300);
  EXPECT_EQ(a.speedup, 0);
  EXPECT_EQ(format_against(a), "1.00x");
}

TEST(missing_baselines, include_cheap_ones_of_a_slow_host) {
  const std::vector<std::string> kinds = {"eager", "graph", "compile"};
  std::vector<baseline_record> records;
  for (const auto& kind : kinds) {
    records.push_back(beside(measured(kind, "here", 40), "best", 20));
    records.back().pace_us = 35;
    records.back().device_us = kind == "graph" ? 39 : 20;
    records.back().program_us = 60;
  }
  EXPECT_THAT(missing_kinds(records, kinds, {"best", 30, 0}), ElementsAre("eager"))
      << "the graph's time is the device's";
  EXPECT_THAT(missing_kinds(records, kinds, {"best", 33, 0}), IsEmpty());
  EXPECT_THAT(missing_kinds(records, kinds, {"best", 33, 58}), IsEmpty());
  EXPECT_THAT(missing_kinds(records, kinds, {"best", 33, 50}), ElementsAre("eager", "graph"))
      << "the program was slow beside them";
}

TEST(missing_baselines, are_those_without_a_record_and_cheap_ones_of_another_variant) {
  const std::vector<std::string> kinds = {"eager", "compile", "graph"};
  EXPECT_EQ(missing_kinds({}, kinds, {""}), kinds);
  std::vector<baseline_record> records = {beside(measured("eager", "here", 300), "best", 50),
                                          beside(measured("compile", "here", 200), "best", 50)};
  EXPECT_THAT(missing_kinds(records, kinds, {"best"}), ElementsAre("graph"));
  EXPECT_THAT(missing_kinds(records, kinds, {"better"}), ElementsAre("eager", "graph"))
      << "torch.compile costs a minute";
  records[0].problem = "out of memory";
  records.push_back(measured("graph", "here", 100));
  EXPECT_THAT(missing_kinds(records, kinds, {""}), IsEmpty()) << "a failure counts as measured";
}

}  // namespace
}  // namespace cudal1::cli
