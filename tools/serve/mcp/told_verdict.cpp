#include "tools/serve/mcp/told_verdict.hpp"

#include <fmt/format.h>

#include "tools/serve/mcp/json_rpc.hpp"

namespace cudal1::serve::mcp {

namespace {

bool is_true(const json& document, std::string_view name) {
  const json* found = document.find(name);
  return found != nullptr && found->is_bool() && found->as_bool();
}

std::string score_text(const json& v) {
  const json* interval = v.find("interval");
  if (!is_true(v, "correct") || interval == nullptr || !interval->is_array())
    return fmt::format("{}: {}", text_member(v, "outcome"), text_member(v, "reason"));
  const auto language = text_member(v, "language");
  return fmt::format("Correct{}. Speedup {:.4g}x, 95% interval [{:.4g}, {:.4g}]: {} {:.4g} us, variant {:.4g} us.",
                     is_true(v, "confirmed") ? ", and measured again on new inputs" : "", number_member(v, "speedup"),
                     interval->as_array().front().as_number(), interval->as_array().back().as_number(),
                     language.empty() ? "reference" : "PyTorch's eager mode", number_member(v, "reference_us"),
                     number_member(v, "variant_us"));
}

}  // namespace

std::string verdict_text(const json& verdict) {
  std::string text = score_text(verdict);
  const bool is_correct = is_true(verdict, "correct");
  if (const auto failed = text_member(verdict, "failed_gate"); !failed.empty() && !is_correct)
    text += fmt::format("\nThe first gate that failed: {}.", failed);
  if (const auto hint = text_member(verdict, "hint"); !hint.empty()) text += "\n" + hint;
  if (const auto log = text_member(verdict, "compiler_log"); !log.empty() && !is_correct)
    text += "\nThe compiler's output:\n" + log;
  if (const json* gates = verdict.find("gates"); gates != nullptr && gates->is_array())
    for (const auto& gate : gates->as_array())
      text += fmt::format("\n{}  {}: {}", is_true(gate, "passed") ? "pass" : "FAIL", text_member(gate, "gate"),
                          text_member(gate, "reason"));
  if (const json* notes = verdict.find("notes"); notes != nullptr && notes->is_array())
    for (const auto& note : notes->as_array())
      if (note.is_string()) text += "\nnote: " + note.as_string();
  if (const auto variant = text_member(verdict, "variant"); !variant.empty()) text += "\nvariant " + variant;
  return text;
}

}  // namespace cudal1::serve::mcp
