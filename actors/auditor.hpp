// Turns the evidence of an evaluation into the verdict that counts: nothing is scored that the evidence does not carry.
#pragma once

#include "actors/interfaces.hpp"
#include "config/configuration.hpp"

namespace cudal1 {

struct auditor_state {
  static constexpr const char* name = "auditor";
  profiling_options options;

  expected<verdict> audit(const message::audit& m) const;
};

auditor_actor::behavior_type run_auditor(auditor_actor::stateful_pointer<auditor_state> self,
                                         profiling_options options);

}  // namespace cudal1
