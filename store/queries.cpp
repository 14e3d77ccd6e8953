#include "store/queries.hpp"

#include <algorithm>
#include <map>

#include <spdlog/spdlog.h>

#include "config/base/describe.hpp"

namespace cudal1 {

std::string short_id(const std::string& id) {
  return id.substr(0, 12);
}

// ---- records --------------------------------------------------------------------------------------------------------

template <class T>
expected<T> store_queries::decode(family f, std::string_view value, const std::string& what) const {
  auto record = from_text<T>(value);
  if (!record) return tl::unexpected(database_->damaged(f, what, record.error().message));
  return record;
}

template <class T>
expected<std::optional<T>> store_queries::load(const record_source& from, family f, const std::string& key,
                                               const std::string& what) {
  CUDAL1_TRY(const auto value, from.get(f, key));
  if (!value) return std::optional<T>();
  CUDAL1_TRY(T record, decode<T>(f, *value, what));
  return std::optional<T>(std::move(record));
}

template <class T>
expected<std::vector<T>> store_queries::load_all(const record_source& from, family f, const std::string& prefix) {
  std::vector<T> out;
  CUDAL1_CHECK(from.scan(f, prefix, [&](std::string_view, std::string_view value) -> expected<bool> {
    CUDAL1_TRY(T record, decode<T>(f, value, fmt::format("number {}", out.size() + 1)));
    out.push_back(std::move(record));
    return true;
  }));
  return out;
}

template expected<std::optional<attempt_record>> store_queries::load(const record_source&, family, const std::string&,
                                                                     const std::string&);
template expected<std::vector<attempt_record>> store_queries::load_all(const record_source&, family,
                                                                       const std::string&);

expected<bool> store_queries::any(const record_source& from, family f, const std::string& prefix) {
  bool found = false;
  CUDAL1_CHECK(from.scan(f, prefix, [&](std::string_view, std::string_view) -> expected<bool> {
    found = true;
    return false;
  }));
  return found;
}

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
  keys::reader r(*value);
  policy_state s;
  s.version = static_cast<int64_t>(r.number());
  if (!r.ok()) return tl::unexpected(database_->damaged(family::policies, name, "it is too short"));
  s.blob = std::string(r.rest());
  return s;
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

expected<variant_record> store_queries::load_use(const keys::verdict_key& k) {
  CUDAL1_TRY(auto use, load<variant_record>(*database_, family::variants,
                                            keys::variant_use(k.variant, k.task, k.experiment), short_id(k.variant)));
  if (!use)
    return tl::unexpected(
        database_->damaged(family::variants, short_id(k.variant), "it has a verdict, but its record is missing"));
  return std::move(*use);
}

// ---- verdicts -------------------------------------------------------------------------------------------------------

expected<verdict> store_queries::load_verdict(const keys::verdict_key& k) {
  CUDAL1_TRY(auto found, load<verdict>(*database_, family::verdicts, keys::verdict(k), short_id(k.variant)));
  if (!found)
    return tl::unexpected(database_->damaged(family::verdicts, short_id(k.variant),
                                             "it is in the score index, but its record is missing"));
  return std::move(*found);
}

expected<std::vector<verdict>> store_queries::verdicts_of_variant(const std::string& variant) {
  CUDAL1_TRY(auto all, load_all<verdict>(*database_, family::verdicts, keys::verdicts_of(variant)));
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.time_unix_ms < b.time_unix_ms; });
  return all;
}

expected<std::vector<verdict>> store_queries::verdicts_of_task(const std::string& task, const std::string& experiment) {
  std::vector<keys::verdict_key> wanted;
  CUDAL1_CHECK(database_->scan(
      family::scores, keys::scores_of(task), [&](std::string_view key, std::string_view) -> expected<bool> {
        auto k = keys::parse_score(key);
        if (!k) return tl::unexpected(database_->damaged(family::scores, short_id(task), "its key is malformed"));
        if (experiment.empty() || k->of.experiment == experiment) wanted.push_back(std::move(k->of));
        return true;
      }));
  std::vector<verdict> out;
  for (const auto& k : wanted) {
    CUDAL1_TRY(auto v, load_verdict(k));
    out.push_back(std::move(v));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.time_unix_ms < b.time_unix_ms; });
  return out;
}

bool store_queries::has_verdict(const std::string& variant, const std::string& experiment) {
  const auto found = any(*database_, family::verdicts,
                         experiment.empty() ? keys::verdicts_of(variant) : keys::verdicts_of(variant, experiment));
  // reserve() repeats the query and returns the error.
  if (!found) spdlog::error("{}", found.error().message);
  return found.value_or(false);
}

expected<std::vector<baseline_record>> store_queries::baselines_of_task(const std::string& task) {
  CUDAL1_TRY(auto all, load_all<baseline_record>(*database_, family::baselines, keys::baselines_of(task)));
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.time_unix_ms < b.time_unix_ms; });
  return all;
}

// ---- the best -------------------------------------------------------------------------------------------------------

namespace {

struct candidate {
  keys::score_key at;
  score_entry what;
};

// Whether a variant is ranked by `a` rather than `b`: a confirmed verdict first, then the newer one.
bool is_preferred(const candidate& a, const candidate& b) {
  if (a.what.confirmed != b.what.confirmed) return a.what.confirmed;
  return a.what.time_unix_ms > b.what.time_unix_ms;
}

}  // namespace

// Reads the task's part of the index up to the first failure: a few hundred bytes per verdict.
expected<std::vector<store::ranked>> store_queries::best(const std::string& task, std::size_t limit,
                                                         bool confirmed_only, const std::string& experiment) {
  std::map<std::string, candidate> by_variant;
  CUDAL1_CHECK(database_->scan(
      family::scores, keys::scores_of(task), [&](std::string_view key, std::string_view value) -> expected<bool> {
        auto k = keys::parse_score(key);
        if (!k) return tl::unexpected(database_->damaged(family::scores, short_id(task), "its key is malformed"));
        if (!(k->score > 0)) return false;  // from here on there are only failures
        if (!experiment.empty() && k->of.experiment != experiment) return true;
        CUDAL1_TRY(const auto entry, decode<score_entry>(family::scores, value, short_id(task)));
        if (entry.result != outcome::correct || (confirmed_only && !entry.confirmed)) return true;
        candidate c{std::move(*k), entry};
        const auto [best_so_far, added] = by_variant.try_emplace(c.at.of.variant, c);
        if (!added && is_preferred(c, best_so_far->second)) best_so_far->second = std::move(c);
        return true;
      }));
  std::vector<candidate> order;
  for (auto& [id, c] : by_variant)
    order.push_back(std::move(c));
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.at.score > b.at.score; });
  if (order.size() > limit) order.resize(limit);

  std::vector<ranked> out;
  for (const auto& c : order) {
    CUDAL1_TRY(auto v, load_verdict(c.at.of));
    CUDAL1_TRY(auto variant, load_use(c.at.of));
    // Measured again from its program text (by hand, for a baseline): its schedule is that of the first record.
    if (variant.schedule.empty()) {
      CUDAL1_TRY(auto first, get_variant(variant.id));
      if (first.task == variant.task && !first.schedule.empty()) variant = std::move(first);
    }
    out.push_back({std::move(v), std::move(variant)});
  }
  return out;
}

}  // namespace cudal1
