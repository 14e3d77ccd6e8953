// How well estimates ordered what an experiment measured, as `cudal1 report` says it.
#include "tools/cli/report/estimate_summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/recorded_estimates.hpp"
#include "tests/tools/tools_fixture.hpp"

namespace cudal1::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* model = "NVIDIA H100 80GB HBM3";

template <class T>
T must(expected<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

// An experiment on gelu_by_hand with so many variants, whose device times are `sign` times the estimated ones.
std::string prepare(const std::string& data, const std::string& device, std::size_t variants, double sign) {
  const task t = must(load_task(must(builtin_task_folder()) + "/gelu_by_hand.json", "cuda"));
  const auto& target = *must(find_lowering_target("cuda"));
  const environment where{device, model, "compute capability 9.0", "environment-7"};
  auto s = must(store::open(data + "/store"));
  must(s->put_task({t.id, t.name, t.summary, t.family, t.profile, canonical_text(t)}).map([] { return 0; }));
  experiment_record e;
  e.device = device;
  e.policy = "evolutionary";
  e.tasks = {t.id};
  e.evaluations_per_task = 24;
  e = must(s->create_experiment(e));
  for (std::size_t i = 0; i < variants; ++i) {
    variant_record v;
    v.schedule = fmt::format("fuse(steps=0..7); items(group=0, elements={})", 1 << i);
    const auto made = must(lower(t, must(parse_schedule(v.schedule)), target));
    v.program = print_program(made.checked.text);
    v.id = made.checked.id;
    v.task = t.id;
    v.origin = "policy evolutionary";
    v.experiment = e.id;
    const auto attempt = must(s->reserve(v, e.id));
    verdict result;
    result.result = outcome::correct;
    result.score = 1.5;
    result.score_interval = {1.4, 1.6};
    result.variant_device_us =
        1000 + sign * *estimated_device_us(t, v.schedule, target, *must(find_device_data(model)));
    result.reference_device_us = 1000;
    result.task = t.id;
    result.variant = v.id;
    result.attempt = attempt.number;
    result.environment_id = where.id;
    result.time_unix_ms = 1764000001000;
    must(s->commit(attempt, result, where).map([](auto&&...) { return 0; }));
  }
  return e.id;
}

std::optional<estimate_summary> summary(const std::string& data, const std::string& experiment) {
  auto s = must(store::open(data + "/store"));
  return must(estimates_of(*s, must(report_experiment(*s, experiment))));
}

TEST(estimate_summary, is_the_rank_correlation_with_what_was_measured) {
  temporary_folder same, reversed;
  const auto e = prepare(same.path(), "cuda:0", 6, 1);
  const auto found = summary(same.path(), e);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->tasks, 1);
  EXPECT_EQ(found->variants, 6);
  EXPECT_NEAR(found->rank_correlation, 1, 0.05);
  EXPECT_THAT(run_cudal1({"report", "--experiment", e, "--data", same.path()}).out,
              HasSubstr("rank correlation of 1.00 (mean of 1 task, 6 variants)"));
  const auto other = summary(reversed.path(), prepare(reversed.path(), "cuda:0", 6, -1));
  ASSERT_TRUE(other);
  EXPECT_NEAR(other->rank_correlation, -1, 0.05);
}

TEST(estimate_summary, is_missing_where_too_little_was_measured_or_not_on_a_gpu) {
  temporary_folder few, cpu;
  const auto e = prepare(few.path(), "cuda:0", 4, 1);
  EXPECT_FALSE(summary(few.path(), e));
  EXPECT_THAT(run_cudal1({"report", "--experiment", e, "--data", few.path()}).out, Not(HasSubstr("rank correlation")));
  EXPECT_FALSE(summary(cpu.path(), prepare(cpu.path(), "cpu", 6, 1)));
}

}  // namespace
}  // namespace cudal1::cli
