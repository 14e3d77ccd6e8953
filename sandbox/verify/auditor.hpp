// The reward auditor's logic: whether the evidence of an evaluation supports the score that it claims, and what the
// score is worth to a learner (policy/README.md). Plain logic; the records are the referee's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/device_data.hpp"
#include "sandbox/evaluation.hpp"
#include "sandbox/program/operators/work.hpp"
#include "sandbox/verify/profiler.hpp"

namespace cudal1 {

struct audit_options {
  // Of the device that measured. Unknown: the rules of bandwidth and launch are skipped, and the evidence says so.
  std::optional<device_data> device;
  std::string unknown_device;     // why there is none, for the evidence
  double bandwidth_share = 0.9;   // of the peak: no kernel reaches more, unless it was measured on that device
  int asked_pairs = 0;            // that the timing plan asked for
  bool confirmed = false;         // the claim may stand as a best, so its interval has the strict limit
  double confirmed_limit = 0.25;  // of the interval's half width, relative to the score
  double screened_limit = 0.6;    // of a claim that is not confirmed
};

struct audit_report {
  bool accepted = false;
  outcome result = outcome::correct;  // else inconsistent or unmeasurable
  std::string reason;                 // of the first rule that refused; "" where accepted
  std::vector<gate_result> evidence;  // one for each rule, also where it was skipped
};

// `timing` holds every sample that was taken and what the referee noticed; `estimate` is the claim.
audit_report audit(const task& t, const check_report& check, const timing_report& timing,
                   const timing_estimate& estimate, const audit_options& options);

// (score - mean) / standard deviation within a group of answers to one prompt, clipped to [-k, k]; all 0 where the
// scores are equal. A failed variant has the score 0.
std::vector<double> group_rewards(std::span<const double> scores, double k = 1.5);

// CUDA-L1's own rule on raw samples: 7 buckets in order, refused where the variance of the buckets' means is above
// 0.005, else their median, rounded toward 1 to two decimals. Nothing where refused, or with fewer than 7 samples.
std::optional<double> cuda_l1_score(std::span<const timing_sample> samples);

}  // namespace cudal1
