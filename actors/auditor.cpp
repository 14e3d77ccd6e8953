#include "actors/auditor.hpp"

#include "sandbox/verify/auditor.hpp"

namespace cudal1 {

expected<verdict> auditor_state::audit(const message::audit& m) const {
  const auto& e = m.estimate;
  const timing_estimate estimate{e.score, e.score_interval, e.reference_us, e.variant_us, e.pairs, e.forks};
  audit_options rules;
  rules.asked_pairs = static_cast<int>(m.asked_pairs);
  rules.confirmed = e.confirmed;
  rules.confirmed_limit = options.confirmed_limit;
  rules.screened_limit = options.screened_limit;
  audit_report report = cudal1::audit(*m.what, m.checked, m.timed, estimate, rules);
  verdict v = m.claim;
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
  return {[&s](const message::audit& m) { return answer_at_edge(s.name, [&] { return s.audit(m); }); }};
}

}  // namespace cudal1
