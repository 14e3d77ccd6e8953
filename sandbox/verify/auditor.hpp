// The reward auditor: whether the evidence of an evaluation supports the claimed score. Pure logic on the referee's
// records. rewards.hpp has what is paid for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/device_data.hpp"
#include "sandbox/evaluation_records.hpp"
#include "sandbox/program/operators/work.hpp"
#include "sandbox/verify/profiler.hpp"

namespace cudal1 {

struct audit_options {
  // The data of the device that was measured. Unknown: the rules of bandwidth and launch are skipped, and the evidence
  // says so.
  std::optional<device_data> device;
  std::string unknown_device;     // why `device` is unknown, for the evidence
  double bandwidth_share = 0.9;   // of the peak: no kernel reaches more, unless a higher rate was measured there
  int64_t variant_steps = 1;      // of its program: each costs the host a launch
  int asked_pairs = 0;            // requested by the timing plan
  bool confirmed = false;         // the claim may become the best, so the strict limit applies to its interval
  double confirmed_limit = 0.25;  // of the interval's half width, relative to the score
  double screened_limit = 0.6;    // the same for an unconfirmed claim
};

struct audit_report {
  bool accepted = false;
  outcome result = outcome::correct;  // else inconsistent or unmeasurable
  std::string reason;                 // of the first rule that failed; "" if accepted
  std::string suspicion;              // why the variant should be checked more deeply; "" if there is no reason
  std::vector<gate_result> evidence;  // one for each rule, including skipped ones
};

// `timing` holds every sample and the referee's observations; `estimate` is the claim.
audit_report audit(const task& t, const check_report& check, const timing_report& timing,
                   const timing_estimate& estimate, const audit_options& options);

}  // namespace cudal1
