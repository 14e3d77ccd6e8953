#include "policy/prompt/variant_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "policy/prompt/format_guide.hpp"
#include "policy/prompt/quantities.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t longest_reason = 1200, longest_analysis = 900, longest_round = 300;  // bytes

std::string short_id(const std::string& id) {
  return id.substr(0, 12);
}

std::string resources_text(const kernel_resources& k) {
  auto text = fmt::format("{}: {} registers", k.kernel, k.registers);
  if (k.static_shared_bytes > 0) text += fmt::format(", {} B of shared memory", k.static_shared_bytes);
  if (k.stack_bytes > 0) text += fmt::format(", {} B of stack", k.stack_bytes);
  return text + (k.spill_store_bytes + k.spill_load_bytes > 0
                     ? fmt::format(", spills {} B out and {} B in", k.spill_store_bytes, k.spill_load_bytes)
                     : ", no spills");
}

// What was measured, one line each.
std::string measurements(const shown_variant& v) {
  const auto& m = v.measured;
  auto text =
      fmt::format("- Call time {} (the task's program: {})", time_text(m.variant_us), time_text(m.reference_us));
  if (m.variant_device_us > 0)
    text +=
        fmt::format("; on the device {} (its: {})", time_text(m.variant_device_us), time_text(m.reference_device_us));
  if (v.roof_share > 0) text += fmt::format("; {:.0f}% of the roof", 100 * v.roof_share);
  text += v.confirmed ? "; measured again with new inputs.\n" : "; measured once.\n";
  if (!v.resources.empty()) {
    std::vector<std::string> kernels;
    for (const auto& k : v.resources)
      kernels.push_back(resources_text(k));
    text += fmt::format("- Compiled: {}.\n", fmt::join(kernels, "; "));
  }
  for (const auto& line : v.counters)
    text += "- " + line + "\n";
  for (const auto& remark : v.remarks)
    text += "- Remark of the audit: " + shortened(remark, longest_round) + "\n";
  return text;
}

std::string work_of(const shown_variant& v, answer_form form) {
  std::string text;
  if (!v.schedule.empty()) text += "- Made by the schedule `" + v.schedule + "`\n";
  if (!v.analysis.empty()) text += "- Its analysis: " + shortened(v.analysis, longest_analysis) + "\n";
  if (form == answer_form::schedule && !v.schedule.empty()) return text + "\n";
  if (v.program.empty()) return text + "\nThe answer held no program.\n\n";
  return text + "\n" + fenced(v.program) + "\n";
}

std::string problems(const shown_variant& v) {
  std::string text = "- Reason: " + shortened(v.reason, longest_reason) + "\n";
  for (const auto& gate : v.failed_gates)
    if (v.reason.find(gate) == std::string::npos) text += "- Failed gate " + shortened(gate, longest_reason) + "\n";
  for (const auto& line : v.worst)
    text += "- " + line + "\n";
  if (!v.compiler_log.empty())
    text += "- The compiler says (line numbers count from the line after `---`):\n\n" + fenced(v.compiler_log);
  return text;
}

std::string borrowed(const shown_variant& v) {
  return v.similarity < 1 ? fmt::format(" (of a similar task, likeness {:.2f}; adapt names and sizes)", v.similarity)
                          : "";
}

// What to do about an outcome.
const char* advice_for(outcome result) {
  switch (result) {
    case outcome::invalid:
      return "The program breaks a rule of the format. Change exactly what the reason says, and check the other steps "
             "for the same mistake.";
    case outcome::compile_error:
    case outcome::refused:
      return "Correct the lines that the compiler names; use only what the dialect has.";
    case outcome::compile_timeout:
      return "Make the source smaller: fewer unrolled loops and templates.";
    case outcome::wrong_answer:
      return "Find the mistake from the worst elements: a place near the end of a row or tensor means a wrong bound or "
             "remainder, an error everywhere a wrong formula, an error in some distributions only a lack of precision "
             "(accumulate in more partial results or in double, subtract the maximum) or NaN handling.";
    case outcome::wrote_input:
    case outcome::out_of_bounds:
      return "Check each index against the tensor's size: grid and block may start more threads than there are "
             "elements, "
             "so guard them, and remainders of rows need their own bounds.";
    case outcome::crash:
    case outcome::hang:
    case outcome::forbidden:
      return "Check indices, loop conditions and barriers: every thread of a block must reach each __syncthreads().";
    case outcome::out_of_memory:
      return "Allocate less: fuse steps instead of keeping large intermediate tensors.";
    case outcome::inconsistent:
      return "The result must depend on nothing but the inputs: initialise every value before it is read, avoid races "
             "between threads and atomics on floats.";
    default:
      return "Write a simpler variant that is certainly correct, then make it fast.";
  }
}

}  // namespace

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  auto end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u)  // not inside a UTF-8 character
    --end;
  return text.substr(0, end) + " ...";
}

std::string fenced(const std::string& text) {
  std::string fence = "```";
  while (text.find(fence) != std::string::npos)
    fence += '`';
  return fence + "\n" + text + (text.ends_with('\n') || text.empty() ? "" : "\n") + fence + "\n";
}

std::string exemplar_text(const shown_variant& v, std::size_t number, std::size_t count, answer_form form) {
  return fmt::format("### Variant {} of {} ({}): {}{}\n", number, count, short_id(v.id), score_text(v.measured),
                     borrowed(v)) +
         measurements(v) + work_of(v, form);
}

std::string failed_text(const shown_variant& v, answer_form form) {
  return fmt::format("### Failed variant ({}): {}{}\n", short_id(v.id), enum_name(v.result), borrowed(v)) +
         problems(v) + work_of(v, form);
}

std::string repair_text(const std::vector<shown_variant>& rounds, answer_form form) {
  if (rounds.empty()) return "";
  std::string text = "# Your last answer failed: repair it\n\n";
  for (std::size_t i = 0; i + 1 < rounds.size(); ++i)
    text += fmt::format("- Round {}: {}: {}\n", i + 1, enum_name(rounds[i].result),
                        shortened(rounds[i].reason, longest_round));
  if (rounds.size() > 1) text += "\n";
  const auto& last = rounds.back();
  text += fmt::format("Round {}, your last answer: {}.\n", rounds.size(), enum_name(last.result)) + problems(last) +
          work_of(last, form);
  return text + advice_for(last.result) +
         " Keep what was right about it, and answer in the same three sections with the complete, corrected " +
         word_for(form) + ", not with a difference.\n";
}

}  // namespace cudal1
