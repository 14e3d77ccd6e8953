// Plans a check and judges its report. Holds no device.
#pragma once

#include "actors/messages/interfaces.hpp"
#include "config/configuration.hpp"

namespace cudal1 {

struct verifier_state {
  static constexpr const char* name = "verifier";
  verification_options options;

  expected<check_plan> plan(const message::plan_verification& m) const;
  expected<message::judged> judge(const message::judge_report& m) const;
};

verifier_actor::behavior_type run_verifier(verifier_actor::stateful_pointer<verifier_state> self,
                                           verification_options options);

}  // namespace cudal1
