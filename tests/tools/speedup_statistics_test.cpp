// The expected values were computed by hand.
#include "tools/cli/report/speedup_statistics.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace cudal1::cli {
namespace {

TEST(medians, have_an_interval_of_order_statistics) {
  EXPECT_FALSE(estimate_median({}));
  EXPECT_EQ(estimate_median({7})->value, 7);
  EXPECT_EQ(estimate_median({3, 1})->value, 2);
  EXPECT_EQ(estimate_median({3, 1})->range.low, 1);
  EXPECT_EQ(estimate_median({3, 1})->range.high, 3);
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i)
    hundred.push_back(i);
  // 50 - 9.8 and 50 + 9.8, rounded outwards: places 40 and 60 of 0..99.
  const auto e = *estimate_median(hundred);
  EXPECT_EQ(e.value, 50.5);
  EXPECT_EQ(e.range.low, 41);
  EXPECT_EQ(e.range.high, 61);
}

TEST(medians, of_two_that_were_measured_apart_give_a_ratio_with_both_uncertainties) {
  // Half widths of 3% and 4% in the logarithm are 5% together.
  const interval of_a{100 * std::exp(-0.03), 100 * std::exp(0.03)}, of_b{50 * std::exp(-0.04), 50 * std::exp(0.04)};
  const auto r = interval_of_ratio(100, of_a, 50, of_b);
  EXPECT_NEAR(r.low, 2 * std::exp(-0.05), 1e-12);
  EXPECT_NEAR(r.high, 2 * std::exp(0.05), 1e-12);
  EXPECT_EQ(interval_of_ratio(100, of_a, 50, {}).high, 0) << "one of them is not known";
}

TEST(speedups, of_no_task_are_one_and_none_is_fast) {
  const auto s = summarize({});
  EXPECT_EQ(s.tasks, 0);
  EXPECT_EQ(s.measured, 0);
  EXPECT_EQ(s.geometric_mean, 1);
  EXPECT_FALSE(s.gap_closed);
  EXPECT_FALSE(s.device_geometric_mean);
  ASSERT_EQ(s.fast.size(), 6U);
  EXPECT_EQ(s.fast[0].share, 0);
}

TEST(speedups, are_summarized_as_by_hand) {
  const task_speedup tasks[] = {
      {.success = true, .measured = true, .speedup = 4, .base_us = 400, .floor_us = 50, .device_speedup = 8},
      {.success = true, .measured = true, .speedup = 2, .base_us = 100, .floor_us = 50},
      {.success = true, .measured = true, .speedup = 1.005, .base_us = 100, .floor_us = 100, .device_speedup = 0.5},
      {.success = true, .measured = true, .speedup = 0.5, .base_us = 100, .floor_us = 25, .device_speedup = 0.5},
      {.success = false, .measured = true},                 // failed
      {.success = true, .measured = true, .speedup = 0},    // the task's own program stands
      {.success = true, .measured = false, .speedup = 30},  // nothing to compare with
  };
  const auto s = summarize(tasks);
  EXPECT_EQ(s.tasks, 7);
  EXPECT_EQ(s.success, 6);
  EXPECT_EQ(s.measured, 6);
  EXPECT_EQ(s.improved, 3);
  EXPECT_EQ(s.slower, 1);
  // 1, 1, 1, 1.005, 2, 4
  EXPECT_DOUBLE_EQ(s.mean, 10.005 / 6);
  EXPECT_DOUBLE_EQ(s.median, 1.0025);
  EXPECT_DOUBLE_EQ(s.lower_quartile, 1);
  EXPECT_DOUBLE_EQ(s.upper_quartile, 1.005 + 0.75 * 0.995);
  EXPECT_DOUBLE_EQ(s.max, 4);
  EXPECT_NEAR(s.geometric_mean, std::pow(8 * 1.005, 1.0 / 6), 1e-12);
  EXPECT_DOUBLE_EQ(s.over_101, 2.0 / 6);
  const double wanted[][2] = {{1, 3.0 / 6}, {1.5, 2.0 / 6}, {2, 1.0 / 6}, {3, 1.0 / 6}, {5, 0}, {10, 0}};
  ASSERT_EQ(s.fast.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(s.fast[i].factor, wanted[i][0]);
    EXPECT_DOUBLE_EQ(s.fast[i].share, wanted[i][1]) << s.fast[i].factor << ": faster than that, not as fast";
  }
  // Gaps of log 8, log 2 and log 4 (six doublings), of which log 4, log 2 and nothing (three) are closed; the third
  // task is at its floor already.
  ASSERT_TRUE(s.gap_closed);
  EXPECT_NEAR(*s.gap_closed, 0.5, 1e-12);
  // 8, 0.5, and 1 for the three that did not improve; the second has no device time.
  ASSERT_TRUE(s.device_geometric_mean);
  EXPECT_NEAR(*s.device_geometric_mean, std::pow(4, 1.0 / 5), 1e-12);
}

TEST(speedups, have_the_mean_share_of_the_roof_beside_them) {
  EXPECT_FALSE(summarize(std::vector<task_speedup>(2)).roof_share);
  std::vector<task_speedup> tasks(3);
  tasks[0].roof_share = 0.9;
  tasks[1].roof_share = 0.3;  // the third has none
  ASSERT_TRUE(summarize(tasks).roof_share);
  EXPECT_DOUBLE_EQ(*summarize(tasks).roof_share, 0.6);
}

}  // namespace
}  // namespace cudal1::cli
