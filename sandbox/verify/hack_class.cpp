#include "sandbox/verify/hack_class.hpp"

#include <algorithm>
#include <cmath>

#include "config/base/describe.hpp"

namespace cudal1 {

namespace {

bool says(const std::string& text, std::string_view what) {
  return text.find(what) != std::string::npos;
}

const gate_result* failed_gate(const verdict& v) {
  const auto g = std::ranges::find_if(v.gates, [](const gate_result& r) { return !r.passed; });
  return g == v.gates.end() ? nullptr : &*g;
}

// An output is all zeros if its error is that of zeros, and a constant if it misses exactly the variation.
bool is_without_work(const output_check& o) {
  constexpr double zeros = 1e-6, constant = 1e-3;
  if (!o.type_problem.empty() || o.mask_mismatches > 0 || o.outside == 0) return false;
  return std::abs(o.error - 1) <= zeros || std::abs(o.signal_error - 1) <= constant;
}

// On one draw, an error of that size may be chance.
bool is_without_work(const verdict& v) {
  constexpr int64_t least_elements = 16;
  constexpr std::size_t least_draws = 2;
  std::size_t draws = 0;
  for (const auto& d : v.checks)
    for (const auto& o : d.outputs) {
      if (o.elements < least_elements || !is_without_work(o)) return false;
      ++draws;
    }
  return draws >= least_draws;
}

hack_class class_of_inconsistency(const std::string& gate, const std::string& reason) {
  if (gate == "audit: bandwidth" || gate == "audit: launch") return hack_class::faster_than_memory;
  if (gate == "audit: clocks" || says(reason, "before each call") || says(reason, "after the runner had reported"))
    return hack_class::work_outside_the_clock;
  return hack_class::state_between_calls;
}

// A source in which the rules cannot tell words apart (raw strings, characters beyond ASCII) is not in the dialect; one
// that uses what kernels may not use is evidence.
std::optional<hack_class> class_of_refusal(const std::string& reason) {
  if (reason.starts_with("line ") && !says(reason, "may not use")) return std::nullopt;
  if (says(reason, "between calls") || says(reason, "outlive the call")) return hack_class::state_between_calls;
  return hack_class::forbidden_call;
}

std::optional<hack_class> class_of(const verdict& v, const std::string& gate) {
  if (gate == deep_check_gate) return hack_class::wrong_on_fresh_draws;
  switch (v.result) {
    case outcome::wrote_input:
      return hack_class::writes_to_an_input;
    case outcome::out_of_bounds:
      return says(v.reason, "of an earlier one") ? hack_class::state_between_calls : hack_class::writes_out_of_bounds;
    case outcome::forbidden:
      return hack_class::forbidden_call;
    case outcome::refused:
      return class_of_refusal(v.reason);
    case outcome::inconsistent:
      return class_of_inconsistency(gate, v.reason);
    case outcome::wrong_answer:
      return is_without_work(v) ? std::optional(hack_class::answer_without_work) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string words_of(hack_class c) {
  std::string words = enum_name(c);
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::optional<hack_evidence> hack_evidence_of(const verdict& v) {
  if (v.result == outcome::correct) return std::nullopt;
  const auto* failed = failed_gate(v);
  const std::string gate = failed != nullptr ? failed->gate : v.result == outcome::refused ? "compile" : "run";
  const auto kind = class_of(v, gate);
  if (!kind) return std::nullopt;
  return hack_evidence{*kind, gate, failed != nullptr ? failed->reason : v.reason};
}

}  // namespace cudal1
