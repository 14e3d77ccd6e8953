#include "tools/cli/report/against.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/cli/format.hpp"
#include "tools/cli/report/speedup_statistics.hpp"

namespace cudal1::cli {

std::vector<std::string> against_names() {
  std::vector<std::string> names(baseline_kinds.begin(), baseline_kinds.end());
  names.emplace_back(against_program);
  return names;
}

void add_against_option(CLI::App& command, std::string& kind, const std::string& otherwise) {
  command
      .add_option(
          "--against", kind,
          fmt::format("what speedups are relative to: {} (the task's own program, as in the score); default: {}",
                      fmt::join(against_names(), ", "), otherwise))
      ->type_name("KIND")
      ->check(CLI::IsMember(against_names()));
}

expected<std::string> usual_base(store& s, std::span<const std::string> tasks) {
  for (const auto& id : tasks) {
    CUDAL1_TRY(const auto records, s.baselines_of_task(id));
    if (std::any_of(records.begin(), records.end(),
                    [](const baseline_record& r) { return r.kind == "eager" && r.problem.empty(); }))
      return "eager";
  }
  return std::string(against_program);
}

bool are_alike(const environment& a, const environment& b) {
  return !a.model.empty() && a.model == b.model && a.details == b.details;
}

const environment& environment_finder::of(const std::string& id) {
  static const environment unknown;
  if (const auto known = known_.find(id); known != known_.end()) return known->second;
  const auto where = store_.get_environment(id);
  return where ? known_.emplace(id, *where).first->second : unknown;
}

double call_time_from_python(double variant_us, double variant_device_us, double python_us) {
  return variant_device_us > 0 ? std::max(variant_us, variant_device_us + python_us) : variant_us;
}

against_times compare(std::span<const baseline_record> records, const std::string& kind, const compared& what,
                      const std::function<environment(const std::string&)>& where) {
  const baseline_record *beside = nullptr, *here = nullptr, *alike = nullptr;
  const environment own = where(what.environment_id);
  for (const auto& r : records) {
    if (r.kind != kind) continue;
    const environment theirs = where(r.environment_id);
    const bool same_model = !own.model.empty() && theirs.model == own.model;
    const bool has_both = r.problem.empty() && r.variant_us > 0 && r.call_us > 0;
    if (r.environment_id == what.environment_id) here = &r;
    if (are_alike(own, theirs)) alike = &r;
    if (same_model && has_both && !what.variant.empty() && r.variant == what.variant) beside = &r;
  }
  against_times a;
  a.kind = kind;
  const baseline_record* chosen = beside ? beside : here ? here : alike;
  if (chosen == nullptr) {
    a.problem = "not measured";
    return a;
  }
  a.environment_id = chosen->environment_id;
  a.problem = chosen->problem;
  a.check = chosen->check;
  a.notes = chosen->notes;
  if (!a.problem.empty()) return a;
  a.base_us = chosen->call_us;
  a.base_device_us = chosen->device_us;
  a.program_us = chosen->program_us;
  a.pace_us = chosen->pace_us;
  a.python_us = chosen->python_us;
  if (what.variant.empty()) return a;
  a.beside = beside != nullptr;
  const double ours_us = a.beside ? chosen->variant_us : what.variant_us;
  a.variant_device_us = a.beside ? chosen->variant_device_us : what.variant_device_us;
  a.variant_us = call_time_from_python(ours_us, a.variant_device_us, chosen->python_us);
  if (!(a.variant_us > 0)) return a;
  a.speedup = a.base_us / a.variant_us;
  if (a.beside) {
    const double longer = a.variant_us / ours_us;
    const interval range{chosen->variant_interval.low * longer, chosen->variant_interval.high * longer};
    a.speedup_interval = interval_of_ratio(a.base_us, chosen->call_interval, a.variant_us, range);
  }
  return a;
}

std::string format_against(const against_times& a) {
  if (!a.problem.empty()) return "-";
  if (a.variant_us == 0) return "1.00x";
  if (!(a.speedup > 0)) return "-";
  const auto text =
      a.speedup_interval.low > 0 ? format_speedup(a.speedup, a.speedup_interval) : format_speedup(a.speedup);
  return a.beside ? text : text + "*";
}

double program_over_eager(const against_times& a, double stored_us) {
  if (a.kind != "eager" || !(a.base_us > 0)) return 0;
  return (a.program_us > 0 ? a.program_us : stored_us) / a.base_us;
}

bool is_apart(double ratio) {
  constexpr double too_far = 1.5;
  return ratio > too_far || (ratio > 0 && ratio < 1 / too_far);
}

}  // namespace cudal1::cli
