// Messages to those who plan and judge: verifier, profiler, auditor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "actors/messages/shared_value.hpp"
#include "sandbox/evaluation_records.hpp"
#include "sandbox/verify/rewards.hpp"
#include "store/store.hpp"

namespace cudal1::message {

struct plan_verification {
  shared_task what;
};
BOOST_DESCRIBE_STRUCT(plan_verification, (), (what))

struct judge_report {
  shared_task what;
  check_plan plan;
  check_report report;
};
BOOST_DESCRIBE_STRUCT(judge_report, (), (what, plan, report))

struct judged {
  outcome result = outcome::correct;
  std::string reason;
  std::vector<gate_result> gates;
  std::string ill_conditioned;
  bool near_eager = false;
};
BOOST_DESCRIBE_STRUCT(judged, (), (result, reason, gates, ill_conditioned, near_eager))

struct begin_timing {
  uint64_t lease = 0;
  std::string task, experiment;
  score_clock scored_by = score_clock::call;
  bool second_look = false;
  bool near_eager = false;  // the variant: it is confirmed as the best of those alone, too
};
BOOST_DESCRIBE_STRUCT(begin_timing, (), (lease, task, experiment, scored_by, second_look, near_eager))

struct add_timing {
  uint64_t lease = 0;
  timing_report report;
};
BOOST_DESCRIBE_STRUCT(add_timing, (), (lease, report))

// The lease ended, with or without a verdict.
struct forget_timing {
  uint64_t lease = 0;
};
BOOST_DESCRIBE_STRUCT(forget_timing, (), (lease))

// What to measure next; if there is nothing to measure, the result.
struct timing_step {
  bool measure = false;
  bool renew = false;  // on a renewed pool
  timing_plan plan;
  int first_fork = 0;
  // If nothing is left to measure. `estimated` is false if no pair could be timed.
  bool estimated = false, confirmed = false;
  timing_estimate estimate;
};
BOOST_DESCRIBE_STRUCT(timing_step, (), (measure, renew, plan, first_fork, estimated, confirmed, estimate))

// The evidence of one evaluation: a verdict that claims a score, and what the referee saw.
struct audit {
  shared_task what;
  verdict claim;
  check_report checked;
  timing_report timed;       // of all plans together
  timing_estimate estimate;  // that the claim was made from
  int64_t asked_pairs = 0;   // in the plans that the estimate is of
  std::string model;         // of the device, as its environment names it
  shared_program program;    // the variant's
};
BOOST_DESCRIBE_STRUCT(audit, (), (what, claim, checked, timed, estimate, asked_pairs, model, program))

// The members of a group, with their verdicts.
struct reward_group {
  std::string group, experiment, task;  // as in reward_record; the group may be "" where the policy has none
  int64_t policy_version = 0;
  std::vector<reward_member> members;
};
BOOST_DESCRIBE_STRUCT(reward_group, (), (group, experiment, task, policy_version, members))

struct rewards {
  paid_group paid;       // with every step
  reward_record record;  // of it, for the store
};
BOOST_DESCRIBE_STRUCT(rewards, (), (paid, record))

}  // namespace cudal1::message
