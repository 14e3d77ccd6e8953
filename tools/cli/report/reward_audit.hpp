// Rewards computed again from the raw samples that the store keeps, beside those that were paid.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/verify/rewards.hpp"
#include "store/store.hpp"

namespace cudal1::cli {

// recomputed: the samples give the rewards that were paid. differs: they do not. not_paid: no rewards are stored, since
// the group is open or its policy does not learn; the rewards are those of the configuration's defaults.
BOOST_DEFINE_ENUM_CLASS(reward_finding, recomputed, differs, not_paid)

struct reward_audit {
  std::string group, experiment, task;
  reward_finding finding = reward_finding::not_paid;
  std::vector<std::string> differences;  // "variant 0123abcd: 0.5 was paid, but its samples give 0.4"
  paid_group again;                      // with every step
};
BOOST_DESCRIBE_STRUCT(reward_audit, (), (group, experiment, task, finding, differences, again))

// Audits the rewards of a group of the store; errc::not_found.
expected<reward_audit> audit_group(store& s, const std::string& group);
// Audits all groups of an experiment that were paid.
expected<std::vector<reward_audit>> audit_groups(store& s, const std::string& experiment);

}  // namespace cudal1::cli
