// What a policy is paid for the members of a group: from their raw samples to their rewards, with every step as a
// sentence. Pure functions; the rules and all constants are the section [reward] of the configuration.
//
// - A failed variant has the score 0 and counts.
// - What is doubted is paid nothing, and counts neither in the mean nor in the deviation, so that a hacked score moves
//   no honest reward: a score that its samples do not give, a suspicion that no deeper check refuted, a failed gate
//   beside a correct outcome, an interval without its score, and what cuda_l1 throws away.
// - Neither is a variant of which nothing was found out: unmeasurable, unexplained, quarantined.
// - A refused hack is a failed variant.
// - A verdict that was reused from another experiment, and a variant that was proposed again, count as if measured.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/configuration.hpp"
#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

struct reward_member : measured_score {  // the claim: of the verdict
  std::string variant;
  int64_t attempt = 1;
  outcome result = outcome::correct;
  std::vector<timing_sample> samples;  // raw, all of the verdict
  std::string doubt;                   // why it is not to be paid; "" if it is
  std::string cleared;                 // a suspicion that a deeper check refuted; "" if there was none
  std::string reused_from;             // as in the verdict
  bool repeated = false;               // it was proposed before, and has the verdict of then
};
BOOST_DESCRIBE_STRUCT(reward_member, (),
                      (variant, attempt, result, score, score_interval, scored_by, reference_us, variant_us,
                       reference_device_us, variant_device_us, reference_warm_us, variant_warm_us, samples, doubt,
                       cleared, reused_from, repeated))

// Made of a verdict with its details, with the doubts that its gates and its suspicion give.
reward_member reward_member_of(const verdict& v);

struct paid_member {
  std::string variant;
  int64_t attempt = 1;
  double score = 0;       // that the rule makes of the samples; 0 if it failed or is doubted
  double value = 0;       // what is normalised: the score, or its logarithm
  double half_width = 0;  // of the value's 95% interval
  bool counts = false;    // in mean and deviation
  std::string doubt;      // why nothing is paid; "" if it counts
  double normalised = 0;  // before clipping
  double reward = 0;
  std::vector<std::string> steps;
};
BOOST_DESCRIBE_STRUCT(paid_member, (),
                      (variant, attempt, score, value, half_width, counts, doubt, normalised, reward, steps))

struct paid_group {
  reward_options rules;
  double mean = 0, deviation = 0, floor = 0;  // of the values that count
  std::vector<paid_member> members;           // in the order given
  std::vector<std::string> steps;             // of mean, deviation and floor
};
BOOST_DESCRIBE_STRUCT(paid_group, (), (rules, mean, deviation, floor, members, steps))

// Mean, deviation and rewards of members whose value, half width and `counts` are set, with their steps.
void pay_values(paid_group& g);
// errc::invalid_argument for an unknown rule.
expected<paid_group> pay_group(std::span<const reward_member> members, const reward_options& rules);

// CUDA-L1's rule on raw samples: buckets in order of measurement.
struct bucketed_score {
  std::vector<double> means;    // of the buckets; none where there are fewer samples than buckets
  double variance = 0;          // between the means
  double median = 0;            // of the means
  std::optional<double> score;  // the median, rounded towards 1 to two decimals; nothing if the rule throws it away
};
BOOST_DESCRIBE_STRUCT(bucketed_score, (), (means, variance, median, score))
bucketed_score cuda_l1_score(std::span<const timing_sample> samples, const reward_options& rules = {});

}  // namespace cudal1
