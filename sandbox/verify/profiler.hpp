// Timing: how many pairs to take, when to stop, and the estimate from the samples (README.md in this folder). Pure
// logic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "config/configuration.hpp"
#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// Reference / variant of one pair.
inline double ratio_of(const timing_sample& s, score_clock by) {
  return by == score_clock::device ? s.reference_device_us / s.variant_device_us : s.reference_us / s.variant_us;
}

// The score with a 95% interval, from a two-level model of the logarithm of the ratio: each fork has its own bias, and
// each pair its own noise. The noise is Shamos' estimate within the forks; the bias is the further variation of the
// forks' medians, shrunk towards `usual_bias` where the forks carry little information. Both enter as the variance of a
// median, with Student's t at Welch's degrees of freedom. The usual bias depends on the kind of device
// (profiling_options::fork_bias): 2% where a fork is two processes on a shared machine (biases of 1-3%, noise of 3-15%
// per call), 0.4% where one process times both on a GPU (0-0.5%, 0.3-5%). With one call in thirty taking 1.5 times as
// long, the interval covers the true value in 93-100% of cases on both (profiler_test). `samples` must not be empty,
// and all call times must be positive. By device times where `by` says so and all samples have them, else by calls.
timing_estimate estimate_timing(std::span<const timing_sample> samples,
                                double usual_bias = profiling_options{}.fork_bias, score_clock by = score_clock::call);

// The largest half width of a confirmed score, relative to it: that of a variant which is far ahead of the best.
double largest_confirmed_half_width(const profiling_options& options);

// Decides after each batch of samples.
// - Screening: stops for a variant whose interval lies below the best so far, if the interval is not wider than a
//   limit. While the interval contains the best and is wider than required, forks are added. If the score then does not
//   exceed the best by at least the least gain, the screening's estimate is final and unconfirmed.
// - Confirmation: a possible new best is measured again with fresh pairs only (the screening's are left out, since the
//   best of N is biased upwards), on a renewed pool. It ends, unconfirmed, when the fresh samples show that it is no
//   new best; else when more forks would change nothing (above the best with a narrow interval, or at the target width)
//   or when forks or time are used up, and is then confirmed unless its interval is wider than allowed for a best.
// A report with a fault or an inconsistency ends the measurement.
class timing_decider {
 public:
  // `best`: the task's best confirmed measurement so far, compared at the pace of the host of the variant's samples
  // (compared_scores.hpp); a score of 1 without times if there is none (the reference itself).
  timing_decider(profiling_options options, measured_score best, score_clock by = score_clock::call);
  timing_decider(profiling_options options, double best_score);  // without times

  enum class action { measure, confirm, stop };
  // `measure`: run plan(); `confirm`: the same on a renewed pool, and count only samples from there on.
  action next() const { return action_; }
  const timing_plan& plan() const { return plan_; }
  int next_fork() const { return next_fork_; }
  void add(const timing_report& report);

  bool confirmed() const { return confirmed_; }
  // From the confirmation's samples if there are any, else from the screening's; nothing before the first sample.
  std::optional<timing_estimate> result() const;
  std::span<const timing_sample> samples() const;  // those that result() uses
  std::span<const timing_sample> all_samples() const { return all_; }

 private:
  profiling_options options_;
  measured_score best_;
  score_clock by_;
  action action_ = action::measure;
  timing_plan plan_;
  int next_fork_ = 0;
  std::size_t confirm_from_ = 0;
  bool confirming_ = false, confirmed_ = false;
  double spent_ms_ = 0;
  std::vector<timing_sample> all_;

  double best_beside(const timing_estimate& e) const;
  bool out_of_time() const { return spent_ms_ >= options_.max_seconds * 1000; }
  action after_screening();
  action after_confirmation();
  void plan(int64_t forks, int64_t pairs, int64_t left);
};

}  // namespace cudal1
