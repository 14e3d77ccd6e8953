#include "store/verdict_records.hpp"

#include <cmath>
#include <optional>
#include <utility>

#include "store/conclusions.hpp"
#include "store/encoding.hpp"
#include "store/exemplar_index.hpp"
#include "store/records.hpp"
#include "store/store.hpp"

namespace cudal1 {

verdict_details take_details(verdict& v) {
  return {std::exchange(v.gates, {}),        std::exchange(v.checks, {}),    std::exchange(v.samples, {}),
          std::exchange(v.compiler_log, {}), std::exchange(v.resources, {}), std::exchange(v.notes, {})};
}

void put_details(verdict& v, verdict_details d) {
  v.gates = std::move(d.gates);
  v.checks = std::move(d.checks);
  v.samples = std::move(d.samples);
  v.compiler_log = std::move(d.compiler_log);
  v.resources = std::move(d.resources);
  v.notes = std::move(d.notes);
}

void tally_record::add(const verdict& v) {
  ++evaluations;
  if (!v.reused_from.empty()) ++reused;
  ++outcomes[enum_name(v.result)];
  for (const auto& [stage, ms] : v.stage_ms)
    stage_ms[stage] += ms;
  if (v.result != outcome::correct) return;
  ++correct;
  if (!v.confirmed || !(v.score > best)) return;
  best = v.score;
  best_variant = v.variant;
}

namespace {

expected<tally_record> read_tally(const write_batch& batch, const std::string& experiment, const std::string& task) {
  CUDAL1_TRY(auto stored, read_record<tally_record>(batch, batch.on_disk(), family::tallies,
                                                    keys::tally(experiment, task), "of a tally"));
  if (stored) return std::move(*stored);
  tally_record first;
  first.experiment = experiment;
  first.task = task;
  return first;
}

put put_of(const tally_record& t) {
  return {family::tallies, keys::tally(t.experiment, t.task), encode(t)};
}

// Whether a variant is ranked by `a` rather than `b`: a confirmed verdict first, then the newer one.
bool is_preferred(const standing_record& a, const standing_record& b) {
  if (a.confirmed != b.confirmed) return a.confirmed;
  return a.time_unix_ms > b.time_unix_ms;
}

// The keys of a variant's places in the rankings of a scope.
std::vector<std::string> places_of(const keys::verdict_key& k, const std::string& scope, const standing_record& s) {
  std::vector<std::string> places{keys::ranking(k.task, scope, store::ranking::all, s.score, k.variant)};
  if (s.confirmed) places.push_back(keys::ranking(k.task, scope, store::ranking::confirmed, s.score, k.variant));
  if (s.confirmed && s.near_eager)
    places.push_back(keys::ranking(k.task, scope, store::ranking::near_eager, s.score, k.variant));
  return places;
}

// Adds the changes of a variant's standing in a scope to `puts`.
expected<void> rank(const write_batch& from, const keys::verdict_key& k, const std::string& scope,
                    const standing_record& now, std::vector<put>& puts) {
  const std::string key = keys::standing(k.task, scope, k.variant);
  CUDAL1_TRY(const auto before, read_record<standing_record>(from, from.on_disk(), family::standings, key, k.variant));
  if (before && !is_preferred(now, *before)) return {};
  if (before)
    for (auto& place : places_of(k, scope, *before))
      puts.push_back({family::rankings, std::move(place), std::nullopt});
  const std::string value = encode(now);
  puts.push_back({family::standings, key, value});
  for (auto& place : places_of(k, scope, now))
    puts.push_back({family::rankings, std::move(place), value});
  return {};
}

}  // namespace

expected<void> add_verdict(write_batch& batch, const keys::verdict_key& key, verdict v,
                           const std::string& environment_class, int64_t island,
                           const std::vector<std::string>& scopes) {
  CUDAL1_TRY(tally_record tally, read_tally(batch, key.experiment, key.task));
  tally.add(v);
  std::vector<put> puts{put_of(tally)};
  const bool is_ranked = v.result == outcome::correct && std::isfinite(v.score) && v.score > 0;
  if (is_ranked) {
    const standing_record standing{key.experiment, key.attempt, v.score, v.confirmed, v.time_unix_ms, v.near_eager};
    CUDAL1_CHECK(rank(batch, key, key.experiment, standing, puts));
    for (const auto& scope : scopes)
      CUDAL1_CHECK(rank(batch, key, scope, standing, puts));
  }
  if (is_ranked || v.result != outcome::correct) {
    const exemplar_entry entry{key.experiment,          key.attempt, v.result,
                               is_ranked ? v.score : 0, v.confirmed, v.time_unix_ms};
    CUDAL1_CHECK(index_verdict(batch, {key.task, environment_class}, key.variant, island, entry));
  }
  CUDAL1_CHECK(index_conclusion(batch, key, v, environment_class));
  puts.push_back({family::details, keys::verdict(key), encode(take_details(v))});
  puts.push_back({family::results, keys::verdict(key), encode(v)});
  for (auto& p : puts)
    batch.add(std::move(p));
  return {};
}

expected<void> unrank(write_batch& batch, const std::string& task, const std::string& scope,
                      const std::string& variant) {
  const std::string key = keys::standing(task, scope, variant);
  CUDAL1_TRY(const auto before, read_record<standing_record>(batch, batch.on_disk(), family::standings, key, variant));
  if (!before) return {};
  for (auto& place : places_of({variant, scope, task, 1}, scope, *before))
    batch.add({family::rankings, std::move(place), std::nullopt});
  batch.add({family::standings, key, std::nullopt});
  return {};
}

expected<put> record_of_loss(const write_batch& from, const std::string& experiment, const std::string& task) {
  CUDAL1_TRY(tally_record tally, read_tally(from, experiment, task));
  ++tally.lost;
  return put_of(tally);
}

expected<put> record_of_unrecorded(const write_batch& from, const std::string& experiment, const std::string& task) {
  CUDAL1_TRY(tally_record tally, read_tally(from, experiment, task));
  ++tally.unrecorded;
  return put_of(tally);
}

}  // namespace cudal1
