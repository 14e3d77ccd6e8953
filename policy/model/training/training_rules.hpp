// What all trainings of policies share: the stages of Contrastive-RL, and what a group's answers are worth.
#pragma once

#include <vector>

#include <boost/describe.hpp>

#include "sandbox/verify/rewards.hpp"

namespace cudal1 {

BOOST_DEFINE_ENUM_CLASS(training_stage, supervised, self_supervised, contrastive)
BOOST_DEFINE_ENUM_CLASS(advantage_rule,
                        group,          // (score - mean) / deviation of the group, clipped: GRPO
                        leave_one_out,  // score - mean of the others, clipped: RLOO
                        none)           // the score itself above 1: REINFORCE without a baseline

// Of a group whose rewards were paid. A member that does not count has the advantage 0, and none counts among others.
std::vector<double> advantages_of(const paid_group& g, advantage_rule rule);

}  // namespace cudal1
