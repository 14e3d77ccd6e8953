// Turns the evidence of an evaluation into the final verdict (a score is kept only if the evidence supports it), and
// the verdicts of a group into rewards. A correct variant that is written like a hack case becomes suspicious.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "actors/agent/hack_cases.hpp"
#include "actors/messages/interfaces.hpp"
#include "config/configuration.hpp"
#include "config/device_data.hpp"

namespace cudal1 {

struct auditor_setup {
  profiling_options timing;
  reward_options reward;
  double hack_similarity = 0.8;  // as verification_options has it
  records_actor records;
};

struct auditor_state {
  static constexpr const char* name = "auditor";
  auditor_actor::pointer self = nullptr;
  auditor_setup setup;
  std::map<std::string, expected<std::optional<device_data>>> devices;  // by model; an error: a file cannot be read
  hack_watch hacks;
  std::optional<std::chrono::steady_clock::time_point> refreshed;  // when the hack cases were last read

  caf::result<verdict> audit(const message::audit& m);
  // By the evidence alone.
  expected<verdict> judge(const message::audit& m);
  // Continues with `then` once the hack cases are as new as they have to be; `otherwise` gets the store's error.
  template <class Then, class Else>
  void with_hack_cases(Then then, Else otherwise);
  // Adds the likeness of an accepted variant to its suspicion, unless our own moves wrote it, and answers.
  void answer_with_likeness(verdict v, const message::audit& m, caf::typed_response_promise<verdict> promise);
  expected<message::rewards> pay(const message::reward_group& m) const;
  const expected<std::optional<device_data>>& data_of(const std::string& model);
};

auditor_actor::behavior_type run_auditor(auditor_actor::stateful_pointer<auditor_state> self, auditor_setup setup);

}  // namespace cudal1
