// The tables of one task.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policy/prompt/counter_text.hpp"
#include "sandbox/program/program.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/page/page_tables.hpp"
#include "tools/cli/report/verdict_text.hpp"

namespace cudal1::cli {

namespace {

std::string changes_text(const lineage_step& step, bool is_first) {
  if (step.schedule.empty()) return "a program without a schedule";
  std::vector<std::string> parts;
  if (!step.moves.added.empty())
    parts.push_back(fmt::format("{}{}", is_first ? "" : "adds ", fmt::join(step.moves.added, "; ")));
  if (!step.moves.removed.empty()) parts.push_back(fmt::format("removes {}", fmt::join(step.moves.removed, "; ")));
  if (step.other_parents > 0) parts.push_back("from " + format_count(step.other_parents + 1, "parent"));
  return parts.empty() ? "the same moves" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string score_text(const lineage_step& step) {
  if (step.outcome.empty()) return "-";
  if (!(step.score > 0)) return step.outcome;
  return format_speedup(step.score) + (step.confirmed ? "" : " (screened)");
}

std::string dimensions(const std::array<int64_t, 3>& d) {
  std::string text = std::to_string(d[0]);
  if (d[1] > 1 || d[2] > 1) text += fmt::format(" × {}", d[1]);
  return d[2] > 1 ? text + fmt::format(" × {}", d[2]) : text;
}

std::string resources_of(const task_page& t, const std::string& kernel) {
  const auto found = std::ranges::find(t.result->resources, kernel, &kernel_resources::kernel);
  return found == t.result->resources.end() ? "-" : print_resources(*found);
}

}  // namespace

data_table lineage_table(const task_page& t, std::size_t number) {
  data_table out{fmt::format("task-{}-lineage", number),
                 "From the first variant of the line to the best.",
                 {{"variant"}, {"speedup", true}, {"what changed", false, true}},
                 {}};
  for (const auto& step : t.lineage)
    out.rows.push_back({{short_id(step.variant), step.variant},
                        {score_text(step), exact(step.score)},
                        {changes_text(step, &step == &t.lineage.front())}});
  return out;
}

data_table gate_table(const task_page& t, std::size_t number) {
  data_table out{fmt::format("task-{}-gates", number),
                 "What was checked before its time counted.",
                 {{"gate"}, {"result"}, {"evidence", false, true}},
                 {}};
  if (!t.result) return out;
  for (const auto& g : t.result->gates) {
    const bool skipped = g.passed && g.reason.starts_with("skipped: ");
    out.rows.push_back({{g.gate}, {!g.passed ? "fail" : skipped ? "skipped" : "pass"}, {g.reason}});
  }
  return out;
}

data_table step_table(const task_page& t, std::size_t number) {
  data_table out{fmt::format("task-{}-steps", number),
                 "What one call of it runs, in order.",
                 {{"step"}, {"grid", true}, {"block", true}, {"compiled to", false, true}},
                 {}};
  if (!t.variant || !t.result) return out;
  const auto p = read_program(t.variant->program);
  if (!p) return out;
  for (const auto& s : p->steps) {
    if (const auto* launch = std::get_if<launch_step>(&s))
      out.rows.push_back({{"kernel " + launch->kernel},
                          {dimensions(launch->grid)},
                          {dimensions(launch->block)},
                          {resources_of(t, launch->kernel)}});
    if (const auto* call = std::get_if<aten_step>(&s))
      out.rows.push_back({{call->op}, {"-"}, {"-"}, {"a library call"}});
  }
  return out;
}

data_table counter_table(const task_page& t, std::size_t number) {
  data_table out{
      fmt::format("task-{}-counters", number),
      "What the kernels of one call use, by Nsight Compute, with empty caches.",
      {{"kernel", false, true}, {"time", true}, {"share", true}, {"uses", false, true}, {"waits for", false, true}},
      {}};
  if (!t.counters) return out;
  for (const auto& k : t.counters->kernels)
    out.rows.push_back({{k.kernel},
                        {format_time(k.us), exact(k.us)},
                        {fmt::format("{:.0f}%", 100 * k.share), exact(k.share)},
                        {usage_text(k)},
                        {k.stalls.empty() ? "-" : stalls_text(k)}});
  return out;
}

}  // namespace cudal1::cli
