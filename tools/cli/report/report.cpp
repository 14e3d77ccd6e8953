#include "tools/cli/report/report.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/messages/protocol.hpp"
#include "config/base/describe.hpp"
#include "policy/search/task_parts.hpp"
#include "policy/search/why_no_moves.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/program/task.hpp"
#include "store/ranking_scopes.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/report/move_failures.hpp"
#include "tools/cli/report/row_parts.hpp"
#include "tools/cli/report/search_models.hpp"
#include "tools/cli/report/stored_tasks.hpp"

namespace cudal1::cli {

void put_best(best_row& row, const store::ranked& r) {
  row.is_reference = false;
  row.reference_us = r.result.reference_us;
  row.best_us = r.result.variant_us;
  row.speedup = r.result.score;
  row.speedup_interval = r.result.score_interval;
  row.beats_reference = r.result.score_interval.low > 1;
  row.variant = r.variant.id;
  row.origin = r.variant.origin;
  row.schedule = r.variant.schedule;
  row.explanation = r.variant.explanation;
  row.environment_id = r.result.environment_id;
  row.reference_device_us = r.result.reference_device_us;
  row.best_device_us = r.result.variant_device_us;
}

expected<void> put_floor(best_row& row, const task& t, const std::string& model, floor_finder& floors) {
  CUDAL1_TRY(const auto roof, floors.of(t, model));
  if (!roof) return {};
  row.floor_us = roof->call_us();
  row.roof_us = roof->device_us();
  row.roof_limit = roof->limit();
  if (row.best_device_us > 0) row.roof_share = row.roof_us / row.best_device_us;
  return {};
}

std::string precision_of(const environment& where) {
  const accuracy a = accuracy_of(where);
  return a == accuracy::strict || a == accuracy::half ? enum_name(a) : "";
}

expected<std::optional<unconfirmed_score>> unconfirmed_of(store& s, const best_row& row, const std::string& own,
                                                          const std::string& experiment) {
  std::optional<unconfirmed_score> found;
  double above = std::max(1.0, row.speedup);
  CUDAL1_TRY(const auto ranked, s.best(row.task, looked_at_for_best, store::ranking::all, experiment));
  for (const auto& [result, variant] : ranked) {
    if (result.confirmed || variant.id == own || result.score_interval.low <= above) continue;
    above = result.score_interval.low;
    found = unconfirmed_score{variant.id, result.score, result.score_interval, variant.origin, variant.schedule};
  }
  return found;
}

namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What was replayed, or held to another accuracy, is reported with its experiment only.
expected<void> leave_out_others(store& s, accuracy held, std::vector<verdict>& verdicts) {
  std::map<std::string, bool> counts{{"", held == accuracy::own}};
  for (const auto& v : verdicts) {
    if (counts.contains(v.environment_id)) continue;
    CUDAL1_TRY(const auto where, s.get_environment(v.environment_id));
    counts[v.environment_id] = is_ranked_with(where, held);
  }
  std::erase_if(verdicts, [&](const verdict& v) { return !counts[v.environment_id]; });
  return {};
}

// The row of a task; also adds its verdicts to the totals.
expected<best_row> row_of(store& s, const task_record& t, search_report& totals, floor_finder& floors) {
  const std::string ranking = ranking_of(totals);
  best_row row;
  row.task = t.id;
  row.name = t.name;
  CUDAL1_TRY(auto verdicts, s.verdicts_of_task(t.id, totals.experiment));
  if (totals.experiment.empty()) CUDAL1_CHECK(leave_out_others(s, totals.held, verdicts));
  std::vector<double> reference_times, reference_device_times;
  for (const auto& v : verdicts) {
    ++row.evaluations;
    ++totals.outcomes[enum_name(v.result)];
    if (!v.reused_from.empty()) ++totals.reused;
    for (const auto& [stage, ms] : v.stage_ms)
      totals.stage_ms[stage] += ms;
    if (v.result == outcome::correct) ++row.correct;
    if (v.result == outcome::unmeasurable) totals.last_unmeasurable = t.name + ": " + v.reason;
    CUDAL1_TRY(const auto bug, failure_shown_by(s, v, t, shown_causes::bugs));
    if (bug) ++totals.move_failures;
    if (v.reference_us > 0) reference_times.push_back(v.reference_us);
    if (v.reference_device_us > 0) reference_device_times.push_back(v.reference_device_us);
    if (row.environment_id.empty()) row.environment_id = v.environment_id;
    if (!v.ill_conditioned.empty()) row.ill_conditioned = v.ill_conditioned;
    row.reference_parts = std::max(row.reference_parts, v.reference_parts);
  }
  totals.evaluations += row.evaluations;
  row.reference_us = row.best_us = median(std::move(reference_times));
  row.reference_device_us = row.best_device_us = median(std::move(reference_device_times));
  const auto read = read_task(t.text, t.profile);
  CUDAL1_TRY(const auto best, best_faster_variant(s, t.id, read ? read->reference.id : "", ranking));
  if (best) put_best(row, *best);
  CUDAL1_TRY(row.unconfirmed, unconfirmed_of(s, row, read ? read->reference.id : "", ranking));
  row.family = t.family;
  if (read && read->origin) row.level = read->origin->level.value_or(0);
  if (read && read->origin) row.uncompared = read->origin->uncompared;
  if (row.environment_id.empty()) return row;
  CUDAL1_TRY(const auto where, s.get_environment(row.environment_id));
  row.precision = precision_of(where);
  if (read && traits_of(where.device).is_accelerator) CUDAL1_CHECK(put_floor(row, *read, where.model, floors));
  return row;
}

// Counts only tasks whose floor is known and below the reference.
std::optional<double> gap_closed(const std::vector<best_row>& rows) {
  std::vector<gap_times> gaps;
  gaps.reserve(rows.size());
  for (const auto& row : rows)
    gaps.push_back({row.reference_us, row.best_us, row.floor_us});
  return share_of_log_gap(gaps);
}

// Of the speedups of those that were reached; nothing if none was.
std::optional<double> mean_speedup(const std::vector<best_row>& rows, auto counts) {
  double logarithms = 0;
  int64_t reached = 0;
  for (const auto& row : rows) {
    if (!row.is_reached() || !counts(row)) continue;
    logarithms += std::log(row.speedup);
    ++reached;
  }
  return reached > 0 ? std::optional(std::exp(logarithms / static_cast<double>(reached))) : std::nullopt;
}

expected<void> finish_report(store& s, search_report& r, const floor_finder& floors) {
  for (const auto& row : r.tasks) {
    if (row.beats_reference) ++r.beat_reference;
    if (!row.ill_conditioned.empty()) ++r.ill_conditioned;
    if (row.reference_parts > 1) ++r.in_parts;
    if (row.precision == enum_name(accuracy::half)) ++r.in_half_precision;
    const bool known = std::any_of(r.environments.begin(), r.environments.end(),
                                   [&](const environment& e) { return e.id == row.environment_id; });
    if (row.environment_id.empty() || known) continue;
    CUDAL1_TRY(auto where, s.get_environment(row.environment_id));
    r.environments.push_back(std::move(where));
  }
  r.geometric_mean = mean_speedup(r.tasks, [](const auto&) { return true; }).value_or(1);
  if (r.ill_conditioned > 0)
    r.geometric_mean_of_others = mean_speedup(r.tasks, [](const auto& row) { return row.ill_conditioned.empty(); });
  std::set<std::string> devices;
  for (const auto& e : r.environments)
    devices.insert(e.device);
  r.devices = static_cast<int64_t>(devices.size());
  r.gap_closed = gap_closed(r.tasks);
  r.unknown_models = floors.unknown();
  if (r.active_s > 0) {
    r.evaluations_per_s = static_cast<double>(r.evaluations) / r.active_s;
    const auto held_s = device_ms_of(r.stage_ms) / 1000 / static_cast<double>(std::max<int64_t>(1, r.devices));
    r.device_busy = std::min(1.0, held_s / r.active_s);
  }
  return {};
}

std::string losses_of(const best_row& row, const std::vector<attempt_record>& attempts) {
  int64_t lost = 0;
  const attempt_record* last = nullptr;
  for (const auto& a : attempts) {
    if (a.task != row.task || a.state != attempt_state::lost) continue;
    ++lost;
    if (last == nullptr || a.time_unix_ms >= last->time_unix_ms) last = &a;
  }
  if (last == nullptr) return "";
  return fmt::format("{} lost, the last: {}", format_count(lost, "attempt") + (lost == 1 ? " was" : " were"),
                     last->note);
}

// What a user should know of a task that has no result, lost attempts, or ended before the experiment did.
expected<void> remark_on(store& s, best_row& row, const experiment_record& e,
                         const std::vector<attempt_record>& attempts) {
  row.remark = losses_of(row, attempts);
  const auto ended = e.ended.find(row.task);
  if (ended == e.ended.end()) return {};
  std::string why = ended->second;
  if (row.is_reference) {
    CUDAL1_TRY(const task_record record, s.get_task(row.task));
    const auto t = read_task(record.text, record.profile);
    const auto kind = kind_of_devices(e.device);
    const auto target = kind ? find_lowering_target(traits_of(*kind).target) : tl::unexpected<error>(kind.error());
    if (t && target)
      if (const auto no_moves = why_no_moves(*t, **target); !no_moves.empty()) {
        why = no_moves + "; `cudal1 evaluate` takes a program written by hand";
        row.no_moves = no_moves.substr(0, no_moves.find(':'));
      }
  }
  if (row.evaluations > 0) why = fmt::format("ended after {}: {}", format_count(row.evaluations, "evaluation"), why);
  row.remark += (row.remark.empty() ? "" : "; ") + why;
  return {};
}

}  // namespace

expected<verdict> with_details(store& s, const verdict& summary) {
  CUDAL1_TRY(const auto all, s.verdicts_of_variant(summary.variant));
  for (const auto& v : all)
    if (v.task == summary.task && v.time_unix_ms == summary.time_unix_ms && v.environment_id == summary.environment_id)
      return v;
  return fail(errc::not_found, "the details of a verdict on variant {} are not in the store", summary.variant);
}

expected<std::optional<store::ranked>> best_faster_variant(store& s, const std::string& task, const std::string& own,
                                                           const std::string& experiment) {
  const auto is_faster = [](const verdict& v) {
    if (v.score <= 1) return false;
    // A difference in call time that may be noise does not outweigh more work on the device.
    constexpr double noise = 1.02;
    return v.score_interval.low > 1 || !(v.variant_device_us > noise * v.reference_device_us);
  };
  CUDAL1_TRY(auto best, s.best(task, looked_at_for_best, store::ranking::confirmed, experiment));
  for (auto& candidate : best)
    if (candidate.variant.id != own && is_faster(candidate.result)) return std::optional(std::move(candidate));
  return std::optional<store::ranked>();
}

expected<search_report> report_experiment(store& s, const std::string& experiment) {
  CUDAL1_TRY(const experiment_record e, s.get_experiment(experiment));
  search_report r;
  floor_finder floors;
  r.experiment = e.id;
  r.state = enum_name(e.state);
  r.policy = e.policy;
  r.device = e.device;
  r.model = e.model;
  r.pruned_unix_ms = e.pruned_unix_ms;
  CUDAL1_TRY(const auto search, experiments_of_search(s, e.id));
  r.search = members_of(search);
  r.active_s = e.active_s;
  for (const auto& id : e.tasks) {
    CUDAL1_TRY(const task_record t, s.get_task(id));
    CUDAL1_TRY(auto row, row_of(s, t, r, floors));
    r.tasks.push_back(std::move(row));
  }
  if (e.active_s > 0) r.policy_wait = std::min(1.0, e.policy_wait_s / e.active_s);
  CUDAL1_TRY(r.models, models_of(s, e));
  CUDAL1_TRY(r.assembled, assembled_of(s, e));
  CUDAL1_TRY(const auto attempts, s.attempts(e.id));
  r.infrastructure_faults =
      std::count_if(attempts.begin(), attempts.end(), [](const auto& a) { return a.state == attempt_state::lost; });
  r.unrecorded = std::count_if(attempts.begin(), attempts.end(),
                               [](const auto& a) { return a.state == attempt_state::unrecorded; });
  for (auto& row : r.tasks)
    CUDAL1_CHECK(remark_on(s, row, e, attempts));
  CUDAL1_CHECK(finish_report(s, r, floors));
  return r;
}

std::string ranking_of(const search_report& r) {
  return r.experiment.empty() ? ranking_scope_of(r.held) : r.experiment;
}

expected<search_report> report_everything(store& s, const std::string& task, accuracy held) {
  search_report r;
  r.held = held;
  floor_finder floors;
  std::vector<task_record> records;
  if (task.empty()) {
    CUDAL1_TRY(records, s.tasks());
  } else {
    CUDAL1_TRY(auto one, find_task(s, task));
    records.push_back(std::move(one));
  }
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const auto& t : records) {
    if (task.empty() && t.family == part_family) continue;
    CUDAL1_TRY(auto row, row_of(s, t, r, floors));
    if (row.evaluations > 0 || !task.empty()) r.tasks.push_back(std::move(row));
  }
  CUDAL1_CHECK(finish_report(s, r, floors));
  if (r.environments.size() == 1) r.device = r.environments.front().device;
  return r;
}

}  // namespace cudal1::cli
