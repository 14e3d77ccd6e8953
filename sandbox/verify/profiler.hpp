// Time: how many pairs, when to stop, and what the samples say (README.md beside this). Plain logic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "config/configuration.hpp"
#include "sandbox/evaluation.hpp"

namespace cudal1 {

// A 95% interval of the score, from a model of two levels in the logarithm of the ratio: each fork has a bias of its
// own, and each pair noise of its own. The noise is Shamos' estimate within the forks; the bias is what the forks'
// medians vary beyond it, shrunk towards `usual_bias` as far as the forks cannot tell; both enter as the variance of a
// median, with Student's t at Welch's degrees of freedom. A usual bias belongs to a kind of device
// (profiling_options::fork_bias): 2% where a fork is two processes on a shared machine (biases of 1-3%, noise of 3-15%
// a call), 0.4% where one process times both on a GPU (0-0.5%, 0.3-5%). With one call in thirty half as long again it
// covers 93-100% in both (profiler_test). `samples` must not be empty, and all times positive.
timing_estimate estimate_timing(std::span<const timing_sample> samples,
                                double usual_bias = profiling_options{}.fork_bias);

// Decides after each batch of samples.
// - Screening: a variant whose interval lies below the best so far is done, however wide that is within a limit. While
//   it is not known on which side of the best it lies, and the interval is wider than asked, forks are added. If it
//   then does not look better than the best, by the least gain at least, the screening's estimate stands, unconfirmed.
// - Confirmation: a would-be best is measured again with fresh pairs only (the screening's are left out, since the best
//   of N is biased upwards), on a renewed pool. It ends, unconfirmed, when the fresh samples say that it is no new
//   best; else when more forks would change nothing (above the best and closely known, or known to the target) or when
//   forks or time are used up, and it is confirmed unless its interval is still wider than a best's may be.
// A report with a fault or an inconsistency ends the measurement.
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

  bool out_of_time() const { return spent_ms_ >= options_.max_seconds * 1000; }
  action after_screening();
  action after_confirmation();
  void plan(int64_t forks, int64_t pairs, int64_t left);
};

}  // namespace cudal1
