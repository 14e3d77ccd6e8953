// What many speedups say together, by the rules of KernelBench and CUDA-L1. Plain logic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation.hpp"

namespace cudal1::cli {

// The median with its 95% interval, by order statistics: of any distribution, from independent samples. Of fewer than
// six the interval is their range.
struct median_estimate {
  double value = 0;
  interval range;
};
// Nothing of no samples.
std::optional<median_estimate> estimate_median(std::vector<double> samples);

// The 95% interval of a / b, of two figures that were measured apart; {0, 0} where either's is not known.
interval interval_of_ratio(double a, const interval& of_a, double b, const interval& of_b);

// One task, for speedup_summary.
struct task_speedup {
  bool success = false;              // a variant was confirmed, or the task's own program stands
  bool measured = false;             // the base has a time
  double speedup = 0;                // base / best; 0 where there is no variant: not improved
  double base_us = 0, floor_us = 0;  // call times; 0 where not known
  double device_speedup = 0;         // the same by device time; 0 where there is none
};

// The share of the tasks that are faster than `factor` times the base ("fast_p" of KernelBench).
struct fast_share {
  double factor = 1, share = 0;
};
BOOST_DESCRIBE_STRUCT(fast_share, (), (factor, share))

// Of the tasks whose base has a time. A task that failed, or that is no faster than the base, counts as 1: people then
// keep the base.
struct speedup_summary {
  int64_t tasks = 0, measured = 0;    // the rest is of the measured ones, but for `success`
  int64_t success = 0, improved = 0;  // improved: faster than the base at all
  int64_t slower = 0;                 // had a variant that is slower than the base
  double mean = 1, geometric_mean = 1, median = 1, lower_quartile = 1, upper_quartile = 1, max = 1;
  double over_101 = 0;                          // share above 1.01
  std::vector<fast_share> fast;                 // 1, 1.5, 2, 3, 5, 10
  std::optional<double> gap_closed;             // share of the log gap from the base to the floor
  std::optional<double> device_geometric_mean;  // over those with a device time (or not improved: 1)
};
BOOST_DESCRIBE_STRUCT(speedup_summary, (),
                      (tasks, measured, success, improved, slower, mean, geometric_mean, median, lower_quartile,
                       upper_quartile, max, over_101, fast, gap_closed, device_geometric_mean))

speedup_summary summarize(std::span<const task_speedup> tasks);

}  // namespace cudal1::cli
