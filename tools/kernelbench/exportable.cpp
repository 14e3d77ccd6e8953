#include "tools/kernelbench/exportable.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "tools/cli/format.hpp"
#include "tools/kernelbench/kept_checks.hpp"

namespace cudal1::cli {

namespace {

constexpr std::size_t k_ranked = 64;  // as an export looks at

void put_reference(best_row& row, std::string remark) {
  best_row own;
  own.task = row.task;
  own.name = row.name;
  own.evaluations = row.evaluations;
  own.correct = row.correct;
  own.reference_us = own.best_us = row.reference_us;
  own.reference_device_us = own.best_device_us = row.reference_device_us;
  own.environment_id = row.environment_id;
  own.floor_us = row.floor_us;
  own.family = row.family;
  own.level = row.level;
  own.remark = std::move(remark);
  row = std::move(own);
}

}  // namespace

expected<exportable_summary> leave_exportable(store& s, search_report& r, const std::string& data) {
  const kept_checks kept(data);
  exportable_summary found;
  for (auto& row : r.tasks) {
    ++found.tasks;
    if (row.is_reference) continue;
    std::set<std::string> right;
    const auto checks = kept.of_task(row.task);
    for (const auto& c : checks)
      if (c.result.problem.empty() && c.result.strict) right.insert(c.variant);
    CUDAL1_TRY(const auto ranked, s.best(row.task, k_ranked, store::ranking::confirmed, ranking_of(r)));
    const auto best = std::ranges::find_if(
        ranked, [&](const store::ranked& v) { return v.result.score > 1 && right.contains(v.variant.id); });
    if (checks.empty()) ++found.unchecked;
    if (best != ranked.end()) {
      ++found.exportable;
      put_best(row, *best);
      if (row.best_device_us > 0) row.roof_share = row.roof_us / row.best_device_us;
    } else {
      put_reference(
          row, checks.empty() ? "no file of it was checked" : "KernelBench's evaluator accepts no checked file of it");
    }
  }
  return found;
}

std::string print_exportable(const exportable_summary& s) {
  auto text =
      fmt::format("Exportable: {} of {} have a faster variant whose exported file KernelBench's evaluator accepts",
                  s.exportable, format_count(s.tasks, "task"));
  if (s.unchecked > 0)
    text += fmt::format("; of {} no file was checked: `cudal1 export DIR --format kernelbench` does it",
                        format_count(s.unchecked, "task"));
  return text + ".";
}

}  // namespace cudal1::cli
