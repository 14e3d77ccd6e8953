#include "actors/agent/hack_cases.hpp"

#include <fmt/format.h>

#include "store/keys.hpp"

namespace cudal1 {

std::optional<hack_case> hack_case_of(const variant_record& v, const verdict& judged, const std::string& experiment) {
  if (!v.schedule.empty()) return std::nullopt;
  const auto evidence = hack_evidence_of(judged);
  if (!evidence) return std::nullopt;
  const auto read = read_program(v.program);
  if (!read) return std::nullopt;  // such a text was never compiled
  hack_case c;
  c.signature = sign_source(read->source);
  if (c.signature.least.empty()) return std::nullopt;
  c.kind = evidence->kind;
  c.variant = v.id;
  c.task = judged.task;
  c.experiment = experiment;
  c.attempt = judged.attempt;
  c.result = judged.result;
  c.gate = evidence->gate;
  c.reason = evidence->reason;
  c.origin = v.origin;
  c.model = v.model;
  return c;
}

void hack_watch::add(const std::vector<hack_case>& newer) {
  for (const auto& c : newer) {
    const auto number = keys::hack_number(c.id);
    if (!number || *number <= last_) continue;
    index_.add(c.id, c.kind, c.signature);
    last_ = *number;
  }
}

std::string hack_watch::likeness_of(const program& p, double at_least) const {
  if (index_.size() == 0 || p.source.empty()) return "";
  const auto found = index_.similar_to(sign_source(p.source), at_least, 1);
  if (found.empty()) return "";
  return fmt::format("its source is {:.0f}% like that of hack case {} ({})", 100 * found[0].similarity, found[0].id,
                     words_of(found[0].kind));
}

}  // namespace cudal1
