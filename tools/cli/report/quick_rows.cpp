#include "tools/cli/report/quick_rows.hpp"

#include <algorithm>
#include <cmath>

#include "sandbox/device/device_type.hpp"
#include "sandbox/program/task.hpp"
#include "tools/cli/report/row_parts.hpp"

namespace cudal1::cli {

const quick_rows::task_facts& quick_rows::facts_of(const task_record& t) {
  const auto found = facts_.find(t.id);
  if (found != facts_.end()) return found->second;
  task_facts facts;
  if (auto parsed = read_task(t.text, t.profile)) facts.parsed = std::move(*parsed);
  return facts_.emplace(t.id, std::move(facts)).first->second;
}

expected<best_row> quick_rows::made(store& s, const task_record& t, const std::string& experiment,
                                    const tally_record& counts) {
  const auto& parsed = facts_of(t).parsed;
  const std::string own = parsed ? parsed->reference.id : "";
  best_row row;
  row.task = t.id;
  row.name = t.name;
  row.family = t.family;
  row.evaluations = counts.evaluations;
  row.correct = counts.correct;
  if (parsed && parsed->origin) row.level = parsed->origin->level.value_or(0);
  if (parsed && parsed->origin) row.uncompared = parsed->origin->uncompared;
  CUDAL1_TRY(const auto first, s.best(t.id, 1, store::ranking::all, experiment));
  if (!first.empty()) {
    const auto& v = first.front().result;
    row.reference_us = row.best_us = v.reference_us;
    row.reference_device_us = row.best_device_us = v.reference_device_us;
    row.environment_id = v.environment_id;
  }
  CUDAL1_TRY(const auto best, best_faster_variant(s, t.id, own, experiment));
  if (best) put_best(row, *best);
  CUDAL1_TRY(row.unconfirmed, unconfirmed_of(s, row, own, experiment));
  if (row.environment_id.empty()) return row;
  CUDAL1_TRY(const auto where, s.get_environment(row.environment_id));
  row.precision = precision_of(where);
  if (parsed && traits_of(where.device).is_accelerator) CUDAL1_CHECK(put_floor(row, *parsed, where.model, floors_));
  return row;
}

expected<best_row> quick_rows::row(store& s, const task_record& t, const std::string& experiment,
                                   const tally_record& counts) {
  const auto key = std::pair(experiment, t.id);
  const auto found = rows_.find(key);
  if (found != rows_.end() && found->second.evaluations == counts.evaluations) return found->second.row;
  CUDAL1_TRY(auto row, made(s, t, experiment, counts));
  rows_[key] = {counts.evaluations, row};
  return row;
}

void add_tally(tally_record& sum, const tally_record& more) {
  sum.evaluations += more.evaluations;
  sum.correct += more.correct;
  sum.reused += more.reused;
  sum.lost += more.lost;
  sum.unrecorded += more.unrecorded;
  if (more.best > sum.best) sum.best = more.best, sum.best_variant = more.best_variant;
  for (const auto& [name, count] : more.outcomes)
    sum.outcomes[name] += count;
  for (const auto& [stage, ms] : more.stage_ms)
    sum.stage_ms[stage] += ms;
}

search_report summed_report(std::vector<best_row> rows, const std::vector<tally_record>& counts) {
  search_report r;
  r.against = against_program;
  double logarithms = 0;
  int64_t reached = 0;
  for (const auto& row : rows) {
    if (row.beats_reference) ++r.beat_reference;
    if (!row.is_reached()) continue;
    logarithms += std::log(row.speedup);
    ++reached;
  }
  if (reached > 0) r.geometric_mean = std::exp(logarithms / static_cast<double>(reached));
  r.tasks = std::move(rows);
  for (const auto& t : counts) {
    r.evaluations += t.evaluations;
    for (const auto& [name, count] : t.outcomes)
      r.outcomes[name] += count;
  }
  return r;
}

}  // namespace cudal1::cli
