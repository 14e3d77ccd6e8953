// Time: how many pairs, when to stop, and what the samples say (MEASURING.md, Time). Plain logic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "config/configuration.hpp"
#include "sandbox/evaluation.hpp"

namespace cudal1 {

struct timing_estimate {
  double score = 0;  // median of reference_us / variant_us over all pairs
  interval score_interval;
  double reference_us = 0, variant_us = 0;
  int pairs = 0, forks = 0;
};

// Bootstrap, 95%: forks are drawn with replacement, then pairs within each, since one pair of processes has a bias of
// its own of 1-3% (two-level bootstrap of the median, percentile). A handful of forks shows too little of their spread,
// so both ends are moved outwards by Student's t over the normal quantile and by sqrt(n / (n - 1)), n forks; one fork
// alone shows none, and gets at least +-3%. Same samples and seed, same interval. `samples` must not be empty, and all
// times positive.
timing_estimate estimate_timing(std::span<const timing_sample> samples, uint64_t seed = 1, int resamples = 2000);

// Decides after each batch of samples. A variant is screened; where that shows no improvement on the best so far (an
// interval below it, or an estimate that is not above it), it stops and the screening's estimate stands, unconfirmed. A
// would-be best is measured again with fresh pairs only (the screening's are left out, since the best of N is biased
// upwards), on a renewed pool, until its interval is narrow enough or a limit is reached; it stops early, unconfirmed,
// when the fresh interval falls below the best. A report with a fault or an inconsistency ends the measurement.
class timing_decider {
 public:
  // `best`: the task's best confirmed score so far; 1 where there is none (the reference itself).
  timing_decider(profiling_options options, double best);

  enum class action { measure, confirm, stop };
  // What to do next: `measure` with plan(), `confirm` the same on a renewed pool and counting from there, or stop.
  action next() const { return action_; }
  const timing_plan& plan() const { return plan_; }
  int next_fork() const { return next_fork_; }
  void add(const timing_report& report);

  bool confirmed() const { return confirmed_; }
  // Of the confirming samples where there are some, else of the screening's; nothing before the first sample.
  std::optional<timing_estimate> result() const;
  std::span<const timing_sample> samples() const;  // those that result() is of
  std::span<const timing_sample> all_samples() const { return all_; }

 private:
  profiling_options options_;
  double best_;
  action action_ = action::measure;
  timing_plan plan_;
  int next_fork_ = 0;
  std::size_t confirm_from_ = 0;
  bool confirming_ = false, confirmed_ = false;
  double spent_ms_ = 0;
  std::vector<timing_sample> all_;

  bool decide();
  void plan_screening();
  void plan_refinement(int forks_so_far);
};

}  // namespace cudal1
