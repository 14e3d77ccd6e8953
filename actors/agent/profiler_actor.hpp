// Decides what each lease measures next, and estimates the score from its samples. Holds no device.
#pragma once

#include <map>
#include <optional>

#include "actors/messages/interfaces.hpp"
#include "config/configuration.hpp"
#include "sandbox/verify/profiler.hpp"

namespace cudal1 {

struct profiler_state {
  static constexpr const char* name = "profiler";
  profiler_actor::pointer self = nullptr;
  profiling_options options;
  records_actor records;
  std::map<uint64_t, std::optional<timing_decider>> leases;  // empty while the best score is being read

  caf::result<message::timing_step> begin(const message::begin_timing& m);
  expected<message::timing_step> add(const message::add_timing& m);
  static message::timing_step step_of(const timing_decider& d);
};

profiler_actor::behavior_type run_profiler(profiler_actor::stateful_pointer<profiler_state> self,
                                           profiling_options options, records_actor records);

}  // namespace cudal1
