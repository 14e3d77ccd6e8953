#include "tools/cli/report/verdict_text.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

// Median and range of some times: "1.80 ms (1.78 ms to 1.91 ms)".
std::string spread(std::vector<double> times) {
  if (times.empty()) return "-";
  std::sort(times.begin(), times.end());
  return fmt::format("{} ({} to {})", format_time(times[times.size() / 2]), format_time(times.front()),
                     format_time(times.back()));
}

std::string timing_line(const verdict& v) {
  std::set<int> forks;
  for (const auto& s : v.samples)
    forks.insert(s.fork);
  return fmt::format("reference {}, variant {}, speedup{} {}; {} from {}, {}", format_time(v.reference_us),
                     format_time(v.variant_us), v.scored_by == score_clock::device ? " by device time" : "",
                     format_speedup(v.score, v.score_interval),
                     format_count(static_cast<int64_t>(v.samples.size()), "pair"),
                     format_count(static_cast<int64_t>(forks.size()), "fork"),
                     v.confirmed ? "confirmed with fresh pairs" : "screened only (not a new best of its task)");
}

// "1.90x the reference, 71% of the memory roof (...); floor of a call 87.0 µs"; "" without device times and roof.
std::string device_line(const verdict& v, const std::optional<roofline>& roof) {
  if (!(v.score > 0) || (!roof && !(v.variant_device_us > 0))) return "";
  std::string text = roof_phrase(v, roof);
  if (v.variant_device_us > 0)
    text += fmt::format("; device time: reference {}, variant {}", format_time(v.reference_device_us),
                        format_time(v.variant_device_us));
  if (v.variant_warm_us > 0)
    text += fmt::format("; with its inputs in the cache: {}, {}", format_time(v.reference_warm_us),
                        format_time(v.variant_warm_us));
  if (roof) text += fmt::format("; floor of a call {}", format_time(roof->call_us()));
  return text;
}

// A label and a text; lines after the first are indented to the start of the text.
std::string hanging(const std::string& label, const std::string& text, const terminal& t) {
  const std::size_t indent = 2 + display_width(label);
  std::string wrapped = wrap(text, t.width, indent);
  wrapped.erase(0, indent);
  return "  " + label + wrapped + "\n";
}

}  // namespace

std::string print_resources(const kernel_resources& k) {
  std::string text = format_count(k.registers, "register");
  if (k.static_shared_bytes > 0)
    text += fmt::format(", {} of shared memory", format_bytes(static_cast<double>(k.static_shared_bytes)));
  if (k.stack_bytes > 0) text += fmt::format(", {} of stack", format_bytes(static_cast<double>(k.stack_bytes)));
  if (k.spill_store_bytes == 0 && k.spill_load_bytes == 0) return text + ", no spills";
  return text + fmt::format(", spills {} out and {} in", format_bytes(static_cast<double>(k.spill_store_bytes)),
                            format_bytes(static_cast<double>(k.spill_load_bytes)));
}

std::string gate_mark(const gate_result& gate, const terminal& t) {
  if (!gate.passed) return t.bad("FAIL");
  return gate.reason.starts_with("skipped: ") ? t.dim("skip") : t.good("pass");
}

std::string print_verdict(const verdict& v, const terminal& t, const std::optional<roofline>& roof) {
  std::string text;
  std::size_t longest = 4;
  for (const auto& gate : v.gates)
    longest = std::max(longest, display_width(gate.gate));
  for (const auto& gate : v.gates)
    text += hanging(gate_mark(gate, t) + "  " + pad(gate.gate, longest + 2), gate.reason, t);
  if (v.score > 0) text += hanging("time  " + pad("", longest + 2), timing_line(v), t);
  if (const auto line = device_line(v, roof); !line.empty()) text += hanging("roof  " + pad("", longest + 2), line, t);
  for (const auto& kernel : v.resources)
    text += hanging("code  " + pad(kernel.kernel, longest + 2) + (kernel.kernel.size() >= longest + 2 ? " " : ""),
                    print_resources(kernel), t);
  if (!v.ill_conditioned.empty())
    text += hanging("note  " + pad("", longest + 2), "ill-conditioned: " + v.ill_conditioned, t);
  for (const auto& note : v.notes)
    text += hanging("note  " + pad("", longest + 2), note, t);
  const bool right = v.result == outcome::correct;
  const auto name = enum_name(v.result);
  text += hanging((right ? t.good(name) : t.bad(name)) + (v.reason.empty() ? "" : ": "), v.reason, t);
  if (!right && !v.compiler_log.empty()) {
    text += "  output of the compiler:\n";
    for (const auto& line : split_lines(v.compiler_log))
      text += "    " + line + "\n";
  }
  return text;
}

std::string print_samples(const verdict& v, const terminal& t) {
  std::map<int, std::pair<std::vector<double>, std::vector<double>>> forks;
  for (const auto& s : v.samples) {
    forks[s.fork].first.push_back(s.reference_us);
    forks[s.fork].second.push_back(s.variant_us);
  }
  table out({{.title = "  fork", .right = true},
             {.title = "pairs", .right = true},
             {.title = "reference: median (range)"},
             {.title = "variant: median (range)"}});
  for (const auto& [fork, times] : forks)
    out.add({std::to_string(fork), std::to_string(times.first.size()), spread(times.first), spread(times.second)});
  return out.empty() ? "" : out.text(t.width);
}

}  // namespace cudal1::cli
