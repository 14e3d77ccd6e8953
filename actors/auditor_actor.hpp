// Turns the evidence of an evaluation into the final verdict: a score is kept only if the evidence supports it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "actors/interfaces.hpp"
#include "config/configuration.hpp"
#include "config/device_data.hpp"

namespace cudal1 {

struct auditor_state {
  static constexpr const char* name = "auditor";
  profiling_options options;
  std::map<std::string, expected<std::optional<device_data>>> devices;  // by model; an error: a file cannot be read

  expected<verdict> audit(const message::audit& m);
  const expected<std::optional<device_data>>& data_of(const std::string& model);
};

auditor_actor::behavior_type run_auditor(auditor_actor::stateful_pointer<auditor_state> self,
                                         profiling_options options);

}  // namespace cudal1
