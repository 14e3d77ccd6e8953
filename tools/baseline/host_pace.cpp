#include "tools/baseline/host_pace.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

constexpr double share_of_host = 0.1;  // of a call's time, as in pytorch_calls.py

// Whether the host takes a considerable part of a call's time.
bool host_bound(double call_us, double device_us) {
  return device_us > 0 && call_us - device_us > share_of_host * call_us;
}

bool has_other_variant(const baseline_record& r, const std::string& variant) {
  return !variant.empty() && r.variant != variant && r.problem.empty();
}

bool was_slow(const baseline_record& r, const known_best& best) {
  const bool call = best.pace_us > 0 && r.pace_us > same_pace * best.pace_us && host_bound(r.call_us, r.device_us);
  const bool program = best.program_us > 0 && r.program_us > same_pace * best.program_us;
  return call || program;
}

}  // namespace

bool is_cheap(const std::string& kind) {
  return kind == "eager" || kind == "cudnn" || kind == "graph";
}

std::vector<std::string> missing_kinds(const std::vector<baseline_record>& records,
                                       const std::vector<std::string>& kinds, const known_best& best) {
  std::vector<std::string> missing;
  for (const auto& kind : kinds) {
    const baseline_record* newest = nullptr;
    for (const auto& r : records)
      if (r.kind == kind) newest = &r;
    const bool again =
        newest != nullptr && is_cheap(kind) && (has_other_variant(*newest, best.variant) || was_slow(*newest, best));
    if (newest == nullptr || again) missing.push_back(kind);
  }
  return missing;
}

std::vector<std::string> changes_on_device(const verdict& then, const verdict& now) {
  std::vector<std::string> notes;
  const auto compare = [&](const char* what, double before_us, double us) {
    if (before_us > 0 && us > 0 && std::max(us / before_us, before_us / us) > same_pace)
      notes.push_back(fmt::format("the device time of {} was {} here, and {} when the variant was confirmed", what,
                                  format_time(us), format_time(before_us)));
  };
  compare("the variant", then.variant_device_us, now.variant_device_us);
  compare("the task's own program", then.reference_device_us, now.reference_device_us);
  return notes;
}

}  // namespace cudal1::cli
