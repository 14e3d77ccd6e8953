#include "tools/cli/report/estimate_summary.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "policy/search/recorded_estimates.hpp"
#include "policy/search/schedule_space.hpp"
#include "sandbox/device/device_type.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

constexpr std::size_t k_least = 5, k_most = 32;  // variants of a task

// Of the correct variants of a task, by their ids.
expected<std::vector<estimated_time>> times_of(store& s, const task& t, const std::string& experiment,
                                               const lowering_target& target, const device_data& gpu) {
  CUDAL1_TRY(const auto verdicts, s.verdicts_of_task(t.id, experiment));
  std::map<std::string, double> measured;
  for (const auto& v : verdicts)
    if (v.result == outcome::correct && v.variant_device_us > 0) measured[v.variant] = v.variant_device_us;
  std::vector<estimated_time> out;
  for (const auto& [id, us] : measured) {
    if (out.size() == k_most) break;
    CUDAL1_TRY(const variant_record made, s.get_variant(id));
    if (made.schedule.empty()) continue;
    if (const auto estimated = estimated_device_us(t, made.schedule, target, gpu)) out.push_back({*estimated, us});
  }
  return out;
}

// Where a row was measured; null if not on a GPU.
const environment* gpu_of(const search_report& r, const best_row& row) {
  const auto found = std::ranges::find(r.environments, row.environment_id, &environment::id);
  return found != r.environments.end() && traits_of(found->device).is_accelerator ? &*found : nullptr;
}

}  // namespace

expected<std::optional<estimate_summary>> estimates_of(store& s, const search_report& r) {
  if (r.experiment.empty()) return std::nullopt;
  estimate_summary out;
  for (const auto& row : r.tasks) {
    const environment* where = gpu_of(r, row);
    if (where == nullptr || row.correct < static_cast<int64_t>(k_least)) continue;
    CUDAL1_TRY(const auto gpu, find_device_data(recorded_model(where->model)));
    if (!gpu) continue;
    CUDAL1_TRY(const task_record record, s.get_task(row.task));
    const auto what = read_task(record.text, record.profile);
    const auto target = find_lowering_target(traits_of(where->device).target);
    if (!what || !target || what->reference.text.steps.size() > most_steps_of_a_space) continue;
    CUDAL1_TRY(const auto times, times_of(s, *what, r.experiment, **target, *gpu));
    if (times.size() < k_least) continue;
    ++out.tasks;
    out.variants += std::ssize(times);
    out.rank_correlation += rank_correlation(times);
  }
  if (out.tasks == 0) return std::nullopt;
  out.rank_correlation /= static_cast<double>(out.tasks);
  return out;
}

std::string print_estimates(const estimate_summary& e) {
  return fmt::format(
      "Estimates ordered the device times of a task's variants with a rank correlation of {:.2f} (mean of {}, {}).",
      e.rank_correlation, format_count(e.tasks, "task"), format_count(e.variants, "variant"));
}

}  // namespace cudal1::cli
