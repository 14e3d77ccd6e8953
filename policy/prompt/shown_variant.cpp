#include "policy/prompt/shown_variant.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "config/base/describe.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t most_worst = 3;

// One line for each output of a failing draw: how many elements are wrong, and the worst.
std::vector<std::string> worst_elements(const std::vector<draw_check>& checks) {
  std::vector<std::string> lines;
  for (const auto& check : checks)
    for (const auto& o : check.outputs) {
      if (o.worst_index < 0 || (o.outside == 0 && o.mask_mismatches == 0)) continue;
      if (lines.size() == most_worst) return lines;
      lines.push_back(fmt::format(
          "inputs of kind {}: {} of {} elements of {} are outside the tolerance{}; at flat index {} it is {:.7g} and "
          "should be {:.7g}",
          enum_name(check.draw.kind), std::max(o.outside, o.mask_mismatches), o.elements, o.name,
          o.mask_mismatches > 0 ? " or NaN or infinite where the expected ones are not" : "", o.worst_index,
          o.worst_value, o.worst_expected));
    }
  return lines;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool says_what_is_wrong(std::string_view line) {
  static constexpr std::array<std::string_view, 8> signs{"error",    "warning", "note:", "refused",
                                                         "required", "line ",   "spill", "bytes stack frame"};
  return std::ranges::any_of(signs, [&](auto sign) { return line.find(sign) != std::string_view::npos; });
}

}  // namespace

std::string useful_log(const std::string& log, std::size_t most_lines) {
  constexpr std::size_t longest_line = 300;
  auto lines = lines_of(log);
  std::erase_if(lines, [](const auto& line) { return line.find_first_not_of(" \t\r") == std::string::npos; });
  const bool has_signs = std::ranges::any_of(lines, says_what_is_wrong);
  std::string text;
  std::size_t shown = 0;
  for (auto& line : lines) {
    if (has_signs && !says_what_is_wrong(line)) continue;
    if (shown++ == most_lines) return text + "...\n";
    if (line.size() > longest_line) line = line.substr(0, longest_line) + "...";
    text += line + "\n";
  }
  return text;
}

std::string readable_program(const std::string& text) {
  const auto read = read_program(text);
  if (!read) return text;
  auto out = print_program_head(*read);
  if (!read->source.empty()) out += std::string(program_separator) + "\n" + read->source;
  return out;
}

shown_variant shown(const exemplar& e, const std::optional<roofline>& roof) {
  const verdict& v = e.known.result;
  shown_variant s;
  s.id = e.id();
  s.program = readable_program(e.known.variant.program);
  s.schedule = e.known.variant.schedule;
  s.analysis = e.known.variant.analysis;
  s.origin = e.known.variant.origin;
  s.similarity = e.known.similarity;
  s.result = v.result;
  s.reason = v.reason;
  s.measured = v;
  s.confirmed = v.confirmed;
  if (roof && v.variant_device_us > 0 && s.similarity >= 1) s.roof_share = roof->device_us() / v.variant_device_us;
  for (const auto& gate : v.gates)
    if (!gate.passed) s.failed_gates.push_back(gate.gate + ": " + gate.reason);
  if (v.result != outcome::correct) s.worst = worst_elements(v.checks);
  s.resources = v.resources;
  if (!v.suspicion.empty()) s.remarks.push_back("checked more deeply: " + v.suspicion);
  s.remarks.insert(s.remarks.end(), v.notes.begin(), v.notes.end());
  if (v.result != outcome::correct) s.compiler_log = useful_log(v.compiler_log);
  return s;
}

}  // namespace cudal1
