#include "actors/auditor_actor.hpp"

#include <spdlog/spdlog.h>

#include "sandbox/verify/auditor.hpp"
#include "sandbox/verify/roofline.hpp"

namespace cudal1 {

const expected<std::optional<device_data>>& auditor_state::data_of(const std::string& model) {
  const auto known = devices.find(model);
  if (known != devices.end()) return known->second;
  auto found = find_device_data(model);
  if (!found) spdlog::error("the specifications of {} cannot be read: {}", model, found.error().message);
  return devices.emplace(model, std::move(found)).first->second;
}

expected<verdict> auditor_state::audit(const message::audit& m) {
  audit_options rules;
  rules.asked_pairs = static_cast<int>(m.asked_pairs);
  rules.confirmed = m.claim.confirmed;
  rules.variant_steps = m.steps;
  rules.confirmed_limit = options.confirmed_limit;
  rules.screened_limit = options.screened_limit;
  if (const auto& data = data_of(m.model); !data)
    rules.unknown_device = data.error().message;
  else if (rules.device = *data; !rules.device)
    rules.unknown_device = "the specifications of " + m.model + " are not known";
  audit_report report = cudal1::audit(*m.what, m.checked, m.timed, m.estimate, rules);
  verdict v = m.claim;
  v.suspicion = report.suspicion;
  if (rules.device) v.floor_us = roofline_of(work_of(*m.what), *rules.device).call_us();
  for (auto& rule : report.evidence)
    v.gates.push_back(std::move(rule));
  if (report.accepted) return v;
  v.result = report.result;
  v.reason = std::move(report.reason);
  v.score = 0;
  v.confirmed = false;
  return v;
}

auditor_actor::behavior_type run_auditor(auditor_actor::stateful_pointer<auditor_state> self,
                                         profiling_options options) {
  prepare(self);
  auto& s = self->state;
  s.options = options;
  return {[&s](const message::audit& m) { return reply_or_error(s.name, [&] { return s.audit(m); }); }};
}

}  // namespace cudal1
