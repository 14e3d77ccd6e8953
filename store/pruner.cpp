#include "store/pruner.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "config/base/wall_clock.hpp"
#include "store/encoding.hpp"
#include "store/exemplar_index.hpp"
#include "store/kept_variants.hpp"
#include "store/ranking_scopes.hpp"
#include "store/records.hpp"
#include "store/verdict_records.hpp"
#include "store/write_batch.hpp"

namespace cudal1 {

namespace {

// Others wait to write meanwhile.
constexpr std::chrono::milliseconds longest_step{500};
constexpr std::size_t removals_in_a_write = 2000;

int64_t end_of(const experiment_record& e) {
  return e.finished_unix_ms > 0 ? e.finished_unix_ms : e.created_unix_ms;
}

class pruner {
 public:
  pruner(database& from, const prune_rule& rule) : database_(from), rule_(rule), batch_(from) {}

  // The stages, each from a place on: "t" and the id of a task, "e" and the number of an experiment, "v" and the number
  // of an event.
  expected<prune_report> step(const std::string& from) {
    CUDAL1_CHECK(find_experiments());
    if (pruned_.empty()) return std::move(report_);
    if (from.empty()) report_.experiments.assign(pruned_.begin(), pruned_.end());
    report_.next = from.empty() ? "t" : from;
    do {
      const std::string place = std::exchange(report_.next, "");
      if (place.front() == 't') CUDAL1_CHECK(prune_tasks(place.substr(1)));
      if (place.front() == 'e') CUDAL1_CHECK(prune_experiments(place.substr(1)));
      if (place.front() == 'v') CUDAL1_CHECK(prune_events(place.substr(1)));
    } while (rule_.dry_run && !report_.next.empty());
    CUDAL1_CHECK(write());
    return std::move(report_);
  }

 private:
  using clock = std::chrono::steady_clock;
  // A dry run must see in one step what it would have removed.
  bool is_late() const { return !rule_.dry_run && clock::now() - began_ > longest_step; }

  expected<void> find_experiments() {
    return database_.scan(family::experiments, "", [&](std::string_view, std::string_view value) -> expected<bool> {
      CUDAL1_TRY(auto e, from_text<experiment_record>(value));
      const bool spared = e.state == experiment_state::running || end_of(e) >= rule_.ended_before_unix_ms ||
                          std::ranges::count(rule_.in_use, e.id) > 0;
      (spared ? spared_ : pruned_).insert(e.id);
      return true;
    });
  }

  // What the prompts of experiments that stay show.
  expected<std::set<std::string>> shown_variants() const {
    std::set<std::string> shown;
    for (const auto& id : spared_)
      CUDAL1_CHECK(database_.scan(family::groups, keys::groups_of(id),
                                  [&](std::string_view, std::string_view value) -> expected<bool> {
                                    CUDAL1_TRY(const auto g, from_text<group_record>(value));
                                    shown.insert(g.exemplars.begin(), g.exemplars.end());
                                    if (!g.repairs.empty()) shown.insert(g.repairs);
                                    return true;
                                  }));
    return shown;
  }

  // ---- the variants of each task

  expected<void> prune_tasks(const std::string& from) {
    CUDAL1_TRY(const auto shown, shown_variants());
    std::vector<std::string> tasks;
    CUDAL1_CHECK(database_.scan(
        family::tasks, "",
        [&](std::string_view key, std::string_view) -> expected<bool> {
          tasks.emplace_back(key);
          return true;
        },
        from));
    for (const auto& task : tasks) {
      if (is_late() && task != from) {
        report_.next = "t" + task;
        return {};
      }
      CUDAL1_TRY(const auto removable, removable_variants(database_, rule_, task, pruned_, shown));
      for (const auto& [id, variant] : removable) {
        CUDAL1_CHECK(remove_variant(task, id, variant));
        CUDAL1_CHECK(write_if_full());
      }
    }
    report_.next = "e0";
    return {};
  }

  expected<void> remove_variant(const std::string& task, const std::string& id, const judged_variant& variant) {
    std::set<std::string> experiments;
    for (const auto& k : variant.verdicts) {
      CUDAL1_CHECK(remove(family::results, keys::verdict(k)));
      CUDAL1_CHECK(remove(family::details, keys::verdict(k)));
      ++report_.verdicts;
      experiments.insert(k.experiment);
    }
    for (const auto& experiment : experiments) {
      CUDAL1_CHECK(unrank(batch_, task, experiment, id));
      CUDAL1_CHECK(remove_use(experiment, task, id));
    }
    for (const accuracy a : {accuracy::own, accuracy::strict, accuracy::half})
      CUDAL1_CHECK(unrank(batch_, task, ranking_scope_of(a), id));
    for (const auto& where : variant.classes) {
      CUDAL1_CHECK(unindex_variant(batch_, {task, where}, id));
      CUDAL1_CHECK(remove(family::conclusions, keys::conclusion(task, where, id)));
    }
    return {};
  }

  // A variant's attempts in an experiment, and its record there; with the last one also that of its first use.
  expected<void> remove_use(const std::string& experiment, const std::string& task, const std::string& id) {
    std::vector<std::string> attempts;
    CUDAL1_CHECK(batch_.scan(family::attempts, keys::attempts_of(experiment, task, id),
                             [&](std::string_view key, std::string_view) -> expected<bool> {
                               attempts.emplace_back(key);
                               return true;
                             }));
    for (const auto& key : attempts)
      CUDAL1_CHECK(remove(family::attempts, key));
    report_.attempts += static_cast<int64_t>(attempts.size());
    CUDAL1_CHECK(remove(family::unfinished, keys::attempts_of(experiment, task, id)));
    CUDAL1_CHECK(remove(family::variants, keys::variant_use(id, task, experiment)));
    CUDAL1_TRY(const bool used, any_record(batch_, family::variants, keys::uses_of(id)));
    CUDAL1_TRY(const bool is_hack, any_record(batch_, family::hacks, keys::hacks_of_variant(id)));
    CUDAL1_TRY(const bool has_opinion, any_record(batch_, family::opinions, keys::opinions_of(id)));
    if (used || is_hack || has_opinion) return {};
    ++report_.variants;
    return remove(family::variants, keys::variant(id));
  }

  // ---- what experiments leave beside verdicts

  expected<void> prune_experiments(const std::string& from) {
    const uint64_t first = std::stoull(from);
    std::vector<uint64_t> numbers;
    for (const auto& id : pruned_)
      if (const auto n = keys::experiment_number(id).value_or(0); n >= first) numbers.push_back(n);
    std::ranges::sort(numbers);
    for (const auto n : numbers) {
      if (is_late() && n != first) {
        report_.next = fmt::format("e{}", n);
        return {};
      }
      const std::string id = fmt::format("e{}", n);
      CUDAL1_CHECK(remove_unjudged(id));
      CUDAL1_CHECK(remove_groups(id));
      CUDAL1_CHECK(mark_pruned(n));
      CUDAL1_CHECK(write_if_full());
    }
    report_.next = "v0";
    return {};
  }

  // Attempts that ended without a verdict.
  expected<void> remove_unjudged(const std::string& experiment) {
    std::set<std::pair<std::string, std::string>> unjudged;  // task, variant
    CUDAL1_CHECK(database_.scan(family::attempts, keys::attempts_of(experiment),
                                [&](std::string_view, std::string_view value) -> expected<bool> {
                                  CUDAL1_TRY(const auto a, from_text<attempt_record>(value));
                                  if (a.state != attempt_state::finished) unjudged.emplace(a.task, a.variant);
                                  return true;
                                }));
    for (const auto& [task, id] : unjudged) {
      CUDAL1_TRY(const bool judged, any_record(batch_, family::results, keys::verdicts_of(task, experiment, id)));
      if (!judged) CUDAL1_CHECK(remove_use(experiment, task, id));
      CUDAL1_CHECK(write_if_full());
    }
    return {};
  }

  // Groups stay whose variants do. What was paid cannot be recomputed without the others, so it goes.
  expected<void> remove_groups(const std::string& experiment) {
    std::vector<group_record> groups;
    CUDAL1_CHECK(database_.scan(family::groups, keys::groups_of(experiment),
                                [&](std::string_view, std::string_view value) -> expected<bool> {
                                  CUDAL1_TRY(groups.emplace_back(), from_text<group_record>(value));
                                  return true;
                                }));
    for (const auto& g : groups) {
      const auto key = keys::parse_group(g.id);
      if (!key) continue;
      CUDAL1_TRY(const bool is_used, remove_gone_members(g, *key));
      CUDAL1_CHECK(remove(family::groups, keys::rewards(*key)));
      if (is_used) continue;
      CUDAL1_CHECK(remove(family::groups, keys::group(*key)));
      CUDAL1_CHECK(remove(family::groups, keys::open_group(*key)));
      ++report_.groups;
      CUDAL1_CHECK(write_if_full());
    }
    return {};
  }

  // Whether any is left.
  expected<bool> remove_gone_members(const group_record& g, const keys::group_key& key) {
    std::vector<std::string> members;
    bool damaged = false, left = false;
    CUDAL1_CHECK(batch_.scan(family::groups, keys::variants_of(key),
                             [&](std::string_view member, std::string_view) -> expected<bool> {
                               const auto variant = keys::parse_group_variant(member);
                               damaged = damaged || !variant;
                               if (variant) members.push_back(*variant);
                               return true;
                             }));
    for (const auto& id : members) {
      CUDAL1_TRY(const auto use, batch_.get(family::variants, keys::variant_use(id, g.task, g.experiment)));
      left = left || use;
      if (!use) CUDAL1_CHECK(remove(family::groups, keys::group_variant(key, id)));
    }
    return left || damaged;
  }

  expected<void> mark_pruned(uint64_t number) {
    const auto key = keys::writer().number(number).take();
    CUDAL1_TRY(auto record, read_record<experiment_record>(batch_, database_, family::experiments, key, "a record"));
    if (!record || record->pruned_unix_ms > 0) return {};
    record->pruned_unix_ms = unix_ms();
    batch_.add({family::experiments, key, encode(*record)});
    return {};
  }

  // ---- events

  // The last one stays: it says which number is the next.
  expected<void> prune_events(const std::string& from) {
    CUDAL1_TRY(const auto last, database_.last_key(family::events));
    std::vector<std::string> gone;
    CUDAL1_CHECK(database_.scan(
        family::events, "",
        [&](std::string_view key, std::string_view value) -> expected<bool> {
          if (is_late()) {
            report_.next = fmt::format("v{}", keys::reader(key).number());
            return false;
          }
          CUDAL1_TRY(const auto e, from_text<event_record>(value));
          if (pruned_.contains(e.experiment) && key != last) gone.emplace_back(key);
          return true;
        },
        keys::event(static_cast<int64_t>(std::stoull(from)))));
    for (const auto& key : gone) {
      CUDAL1_CHECK(remove(family::events, key));
      CUDAL1_CHECK(write_if_full());
    }
    report_.events += static_cast<int64_t>(gone.size());
    return {};
  }

  // ---- records

  expected<void> remove(family f, std::string key) {
    CUDAL1_TRY(const auto value, batch_.get(f, key));
    if (!value) return {};
    report_.bytes += static_cast<int64_t>(key.size() + value->size());
    batch_.add({f, std::move(key), std::nullopt});
    return {};
  }

  expected<void> write_if_full() { return batch_.size() >= removals_in_a_write ? write() : expected<void>(); }
  expected<void> write() { return rule_.dry_run ? expected<void>() : batch_.write(); }

  database& database_;
  const prune_rule& rule_;
  write_batch batch_;
  clock::time_point began_ = clock::now();
  std::set<std::string> pruned_, spared_;  // experiments
  prune_report report_;
};

}  // namespace

void prune_report::add(const prune_report& step) {
  experiments.insert(experiments.end(), step.experiments.begin(), step.experiments.end());
  variants += step.variants;
  verdicts += step.verdicts;
  attempts += step.attempts;
  groups += step.groups;
  events += step.events;
  bytes += step.bytes;
}

expected<prune_report> prune_step(database& from_database, const prune_rule& rule, const std::string& from) {
  return pruner(from_database, rule).step(from);
}

}  // namespace cudal1
