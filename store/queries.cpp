#include "store/queries.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <tuple>

#include "config/base/describe.hpp"
#include "sandbox/program/task.hpp"
#include "sandbox/verify/compared_scores.hpp"
#include "store/records.hpp"
#include "store/verdict_records.hpp"

namespace cudal1 {

std::string short_id(const std::string& id) {
  return id.substr(0, 12);
}

// ---- records --------------------------------------------------------------------------------------------------------

template <class T>
expected<T> store_queries::decode(family f, std::string_view value, const std::string& what) const {
  return decode_record<T>(*database_, f, value, what);
}

template <class T>
expected<std::optional<T>> store_queries::load(const record_source& from, family f, const std::string& key,
                                               const std::string& what) {
  return read_record<T>(from, *database_, f, key, what);
}

template <class T>
expected<std::vector<T>> store_queries::load_all(const record_source& from, family f, const std::string& prefix) {
  return read_records<T>(from, *database_, f, prefix);
}

template expected<std::optional<attempt_record>> store_queries::load(const record_source&, family, const std::string&,
                                                                     const std::string&);
template expected<std::optional<reward_record>> store_queries::load(const record_source&, family, const std::string&,
                                                                    const std::string&);
template expected<hack_case> store_queries::decode(family, std::string_view, const std::string&) const;
template expected<std::vector<attempt_record>> store_queries::load_all(const record_source&, family,
                                                                       const std::string&);
template expected<std::vector<group_record>> store_queries::load_all(const record_source&, family, const std::string&);
template expected<std::vector<reward_record>> store_queries::load_all(const record_source&, family, const std::string&);

expected<task_record> store_queries::get_task(const std::string& id) {
  CUDAL1_TRY(auto found, load<task_record>(*database_, family::tasks, id, id));
  if (!found) return fail(errc::not_found, "the store {} has no task {}", database_->folder(), short_id(id));
  return std::move(*found);
}

expected<std::vector<task_record>> store_queries::tasks() {
  CUDAL1_TRY(auto all, load_all<task_record>(*database_, family::tasks, ""));
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

expected<experiment_record> store_queries::get_experiment(const std::string& id) {
  const auto number = keys::experiment_number(id);
  if (!number) return fail(errc::not_found, "there is no experiment \"{}\"; experiments are named e1, e2, ...", id);
  CUDAL1_TRY(auto found,
             load<experiment_record>(*database_, family::experiments, keys::writer().number(*number).take(), id));
  if (!found) return fail(errc::not_found, "the store {} has no experiment {}", database_->folder(), id);
  return std::move(*found);
}

expected<std::vector<experiment_record>> store_queries::experiments() {
  return load_all<experiment_record>(*database_, family::experiments, "");
}

expected<environment> store_queries::get_environment(const std::string& id) {
  CUDAL1_TRY(auto found, load<environment>(*database_, family::environments, id, id));
  if (!found) return fail(errc::not_found, "the store {} has no environment {}", database_->folder(), short_id(id));
  return std::move(*found);
}

expected<std::vector<attempt_record>> store_queries::attempts(const std::string& experiment) {
  return load_all<attempt_record>(*database_, family::attempts, keys::attempts_of(experiment));
}

expected<std::vector<event_record>> store_queries::events_after(int64_t sequence, std::size_t limit) {
  std::vector<event_record> out;
  if (limit == 0) return out;
  const std::string start = keys::event(std::max<int64_t>(sequence, -1) + 1);
  CUDAL1_CHECK(database_->scan(
      family::events, "",
      [&](std::string_view, std::string_view value) -> expected<bool> {
        CUDAL1_TRY(auto e, decode<event_record>(family::events, value, "of an event"));
        out.push_back(std::move(e));
        return out.size() < limit;
      },
      start));
  return out;
}

expected<store::policy_state> store_queries::get_policy(const std::string& name) {
  CUDAL1_TRY(auto value, database_->get(family::policies, name));
  if (!value) return fail(errc::not_found, "the store {} has no state of the policy \"{}\"", database_->folder(), name);
  return read_policy_state(name, *value);
}

expected<store::policy_state> store_queries::read_policy_state(std::string_view name, std::string_view value) {
  keys::reader r(value);
  policy_state s;
  s.version = static_cast<int64_t>(r.number());
  if (!r.ok()) return tl::unexpected(database_->damaged(family::policies, name, "it is too short"));
  s.blob = std::string(r.rest());
  return s;
}

expected<bool> store_queries::has_policy_state(const std::string& blob) {
  bool found = false;
  CUDAL1_CHECK(
      database_->scan(family::policies, "", [&](std::string_view name, std::string_view value) -> expected<bool> {
        CUDAL1_TRY(const auto state, read_policy_state(name, value));
        found = state.blob == blob;
        return !found;
      }));
  return found;
}

// ---- variants -------------------------------------------------------------------------------------------------------

expected<variant_record> store_queries::get_variant(const std::string& id) {
  CUDAL1_TRY(auto found, load<variant_record>(*database_, family::variants, keys::variant(id), id));
  if (!found) return fail(errc::not_found, "the store {} has no variant {}", database_->folder(), short_id(id));
  return std::move(*found);
}

expected<variant_record> store_queries::find_variant(const std::string& prefix) {
  if (prefix.size() < 4)
    return fail(errc::invalid_argument, "\"{}\" is too short for a variant: give at least 4 digits of its id", prefix);
  std::vector<std::string> ids;
  CUDAL1_CHECK(database_->scan(family::variants, prefix, [&](std::string_view key, std::string_view) -> expected<bool> {
    const std::string_view id = key.substr(0, key.find('\0'));
    if (ids.empty() || ids.back() != id) ids.emplace_back(id);
    return ids.size() < 4;
  }));
  if (ids.empty()) return fail(errc::not_found, "the store {} has no variant {}", database_->folder(), prefix);
  if (ids.size() > 1 && ids.front() != prefix) {
    return fail(errc::invalid_argument, "several variants begin with {}: {}, {}{}; give more digits", prefix,
                short_id(ids[0]), short_id(ids[1]), ids.size() > 2 ? ", ..." : "");
  }
  return get_variant(ids.front());
}

expected<std::vector<variant_record>> store_queries::uses_of_variant(const std::string& id) {
  CUDAL1_TRY(auto all, load_all<variant_record>(*database_, family::variants, keys::uses_of(id)));
  if (all.empty()) return all;
  CUDAL1_TRY(const auto first, get_variant(id));
  for (auto& use : all)
    use.program = first.program;
  std::ranges::stable_sort(all, {}, &variant_record::time_unix_ms);
  return all;
}

expected<variant_record> load_use(const record_source& from, const stored_records& on_disk,
                                  const keys::verdict_key& k) {
  const auto key = keys::variant_use(k.variant, k.task, k.experiment);
  CUDAL1_TRY(auto use, read_record<variant_record>(from, on_disk, family::variants, key, short_id(k.variant)));
  if (!use)
    return tl::unexpected(
        on_disk.damaged(family::variants, short_id(k.variant), "it has a verdict, but its record is missing"));
  return std::move(*use);
}

expected<variant_record> store_queries::load_with_schedule(const keys::verdict_key& k) {
  return variants_.get(keys::variant_use(k.variant, k.task, k.experiment), [&]() -> expected<variant_record> {
    CUDAL1_TRY(auto use, load_use(*database_, *database_, k));
    CUDAL1_TRY(auto first, get_variant(use.id));
    if (use.schedule.empty() && first.task == use.task && !first.schedule.empty()) return first;
    use.program = std::move(first.program);
    return use;
  });
}

// ---- verdicts -------------------------------------------------------------------------------------------------------

namespace {

void sort_by_time(std::vector<verdict>& all) {
  std::ranges::stable_sort(all, {}, &verdict::time_unix_ms);
}

}  // namespace

expected<verdict> store_queries::load_summary(const keys::verdict_key& k) {
  CUDAL1_TRY(auto found, load<verdict>(*database_, family::results, keys::verdict(k), short_id(k.variant)));
  if (!found)
    return tl::unexpected(
        database_->damaged(family::results, short_id(k.variant), "it is ranked, but its record is missing"));
  return std::move(*found);
}

expected<void> store_queries::load_details(const std::string& key, verdict& into) {
  const std::string id = short_id(into.variant);
  CUDAL1_TRY(auto details, load<verdict_details>(*database_, family::details, key, id));
  if (!details) return tl::unexpected(database_->damaged(family::details, id, "it is missing"));
  put_details(into, std::move(*details));
  return {};
}

expected<std::vector<verdict>> store_queries::load_verdicts(const std::string& prefix, verdict_parts parts) {
  std::vector<verdict> out;
  std::vector<std::string> keys;
  CUDAL1_CHECK(
      database_->scan(family::results, prefix, [&](std::string_view key, std::string_view value) -> expected<bool> {
        CUDAL1_TRY(verdict v, decode<verdict>(family::results, value, fmt::format("number {}", out.size() + 1)));
        out.push_back(std::move(v));
        keys.emplace_back(key);
        return true;
      }));
  if (parts == verdict_parts::all) {
    for (std::size_t i = 0; i < out.size(); ++i)
      CUDAL1_CHECK(load_details(keys[i], out[i]));
  }
  return out;
}

expected<std::vector<store::recorded_verdict>> store_queries::recorded_verdicts(const std::string& task,
                                                                                const std::string& variant) {
  std::vector<keys::use_key> uses;
  CUDAL1_CHECK(database_->scan(
      family::variants, keys::uses_of(variant), [&](std::string_view key, std::string_view) -> expected<bool> {
        auto use = keys::parse_variant_use(key);
        if (!use)
          return tl::unexpected(database_->damaged(family::variants, short_id(variant), "its key is malformed"));
        if (task.empty() || use->task == task) uses.push_back(std::move(*use));
        return true;
      }));
  std::vector<recorded_verdict> out;
  for (const auto& use : uses) {
    CUDAL1_TRY(auto found, load_verdicts(keys::verdicts_of(use.task, use.experiment, variant), verdict_parts::all));
    for (auto& v : found)
      out.push_back({use.experiment, std::move(v)});
  }
  std::ranges::stable_sort(out, {}, [](const recorded_verdict& r) { return r.result.time_unix_ms; });
  return out;
}

expected<std::vector<verdict>> store_queries::verdicts_of_variant(const std::string& variant) {
  CUDAL1_TRY(auto recorded, recorded_verdicts("", variant));
  std::vector<verdict> out;
  for (auto& r : recorded)
    out.push_back(std::move(r.result));
  return out;
}

expected<std::vector<verdict>> store_queries::verdicts_in_experiment(const std::string& experiment,
                                                                     const std::string& task,
                                                                     const std::string& variant) {
  return load_verdicts(keys::verdicts_of(task, experiment, variant), verdict_parts::all);
}

expected<std::vector<verdict>> store_queries::verdicts_of_task(const std::string& task, const std::string& experiment,
                                                               verdict_parts parts) {
  CUDAL1_TRY(auto out,
             load_verdicts(experiment.empty() ? keys::verdicts_of(task) : keys::verdicts_of(task, experiment), parts));
  sort_by_time(out);
  return out;
}

expected<std::vector<tally_record>> store_queries::tallies(const std::string& experiment) {
  return load_all<tally_record>(*database_, family::tallies, keys::tallies_of(experiment));
}

expected<bool> store_queries::has_attempt(const std::string& experiment, const std::string& task,
                                          const std::string& variant) {
  CUDAL1_TRY(const auto first, database_->get(family::attempts, keys::attempt(experiment, task, variant, 1)));
  return first.has_value();
}

expected<std::vector<attempt_record>> store_queries::unfinished_attempts(const std::string& experiment) {
  return load_all<attempt_record>(*database_, family::unfinished, keys::attempts_of(experiment));
}

expected<std::vector<baseline_record>> store_queries::baselines_of_task(const std::string& task) {
  CUDAL1_TRY(auto all, load_all<baseline_record>(*database_, family::baselines, keys::baselines_of(task)));
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.time_unix_ms < b.time_unix_ms; });
  return all;
}

task_record record_of(const task& t) {
  return {t.id, t.name, t.summary, t.family, t.profile, canonical_text(t)};
}

expected<std::vector<judged_file>> store_queries::judged_files(const std::string& task) {
  CUDAL1_TRY(auto all, load_all<judged_file>(*database_, family::files, keys::files_of(task)));
  std::ranges::stable_sort(all, [](const judged_file& a, const judged_file& b) {
    return std::tuple(!a.correct, -a.speedup, -a.time_unix_ms) < std::tuple(!b.correct, -b.speedup, -b.time_unix_ms);
  });
  return all;
}

expected<std::vector<opinion_record>> store_queries::opinions_of_variant(const std::string& variant) {
  return load_all<opinion_record>(*database_, family::opinions, keys::opinions_of(variant));
}

// ---- the best -------------------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t compared_at_one_pace = 16;

// Indices of results that are sorted by score, best first: those of the first one's environment compared at one pace.
std::vector<std::size_t> order_at_one_pace(std::span<const verdict> results) {
  std::vector<measured_score> all;
  std::vector<std::size_t> order;
  for (const verdict& v : results) {
    order.push_back(all.size());
    measured_score& m = all.emplace_back(v);
    if (v.environment_id != results.front().environment_id) m.variant_device_us = 0;  // without it a score stays
  }
  const auto scores = scores_at_one_pace(all);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return scores[i]; });
  return order;
}

}  // namespace

expected<std::vector<store::ranked>> store_queries::best(const std::string& task, std::size_t limit, ranking among,
                                                         const std::string& experiment) {
  std::vector<keys::verdict_key> order;
  if (limit == 0) return std::vector<ranked>();
  // The scores are those of the host's pace at the time; what is best at one pace is among the first.
  const std::size_t looked_at = std::max(limit, compared_at_one_pace);
  const std::string prefix = keys::ranking_of(task, experiment, among);
  CUDAL1_CHECK(
      database_->scan(family::rankings, prefix, [&](std::string_view key, std::string_view value) -> expected<bool> {
        CUDAL1_TRY(const auto standing, decode<standing_record>(family::rankings, value, short_id(task)));
        keys::reader r(key.substr(prefix.size()));
        r.descending();
        order.push_back({r.text(), standing.experiment, task, standing.attempt});
        if (!r.ok() || !r.at_end())
          return tl::unexpected(database_->damaged(family::rankings, short_id(task), "its key is malformed"));
        return order.size() < looked_at;
      }));

  std::vector<verdict> results;
  for (const auto& k : order) {
    CUDAL1_TRY(auto v, load_summary(k));
    results.push_back(std::move(v));
  }
  std::vector<ranked> out;
  for (const std::size_t i : order_at_one_pace(results)) {
    if (out.size() == limit) break;
    CUDAL1_TRY(auto variant, load_with_schedule(order[i]));
    out.push_back({std::move(results[i]), std::move(variant)});
  }
  return out;
}

}  // namespace cudal1
