// Summary statistics of many speedups, by the rules of KernelBench and CUDA-L1.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"

namespace cudal1::cli {

// The median with a 95% interval from order statistics, for independent samples of any distribution. With fewer than
// six samples the interval is their range.
struct median_estimate {
  double value = 0;
  interval range;
};
// nullopt without samples.
std::optional<median_estimate> estimate_median(std::vector<double> samples);

// The 95% interval of a / b for two values that were measured independently; {0, 0} if either interval is unknown.
interval interval_of_ratio(double a, const interval& of_a, double b, const interval& of_b);

// One task, as input of summarize.
struct task_speedup {
  bool success = false;              // a variant was confirmed, or the best is the task's own program
  bool measured = false;             // the base has a time
  double speedup = 0;                // base / best; 0 without a variant: not improved
  double base_us = 0, floor_us = 0;  // call times; 0: unknown
  double device_speedup = 0;         // by device time; 0: unknown
  double roof_share = 0;             // of the best, or of the own program where none is; 0: unknown
};

// The share of the tasks that are more than `factor` times as fast as the base ("fast_p" of KernelBench).
struct fast_share {
  double factor = 1, share = 0;
};
BOOST_DESCRIBE_STRUCT(fast_share, (), (factor, share))

// Over the tasks whose base has a time. A task that failed or is not faster than the base counts as 1: its user would
// keep the base.
struct speedup_summary {
  int64_t tasks = 0, measured = 0;    // except for `tasks` and `success`, only measured tasks count
  int64_t success = 0, improved = 0;  // improved: faster than the base
  int64_t slower = 0;                 // with a variant that is slower than the base
  double mean = 1, geometric_mean = 1, median = 1, lower_quartile = 1, upper_quartile = 1, max = 1;
  double over_101 = 0;                          // share above 1.01
  std::vector<fast_share> fast;                 // 1, 1.5, 2, 3, 5, 10
  std::optional<double> gap_closed;             // share of the log gap from the base to the floor
  std::optional<double> device_geometric_mean;  // over those with a device time; not improved ones count as 1
  std::optional<double> roof_share;             // mean over the tasks that have one, measured or not
};
BOOST_DESCRIBE_STRUCT(speedup_summary, (),
                      (tasks, measured, success, improved, slower, mean, geometric_mean, median, lower_quartile,
                       upper_quartile, max, over_101, fast, gap_closed, device_geometric_mean, roof_share))

speedup_summary summarize(std::span<const task_speedup> tasks);

}  // namespace cudal1::cli
