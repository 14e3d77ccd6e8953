#include "store/kept_variants.hpp"

#include <algorithm>
#include <tuple>

#include "store/exemplar_index.hpp"
#include "store/records.hpp"
#include "store/store.hpp"

namespace cudal1 {

namespace {

struct candidate {
  std::string variant;
  double score = 0;
  bool confirmed = false, near_eager = false;
};

bool is_better(const candidate& a, const candidate& b) {
  return std::tie(b.score, a.variant) < std::tie(a.score, b.variant);
}

// Reads the verdicts of one task and marks the variants that stay.
class task_survey {
 public:
  task_survey(const database& from, const prune_rule& rule, std::string task, const std::set<std::string>& pruned)
      : from_(from), rule_(rule), task_(std::move(task)), pruned_(pruned) {}

  expected<void> read() {
    std::vector<std::pair<keys::verdict_key, verdict>> all;
    CUDAL1_CHECK(from_.scan(family::results, keys::verdicts_of(task_),
                            [&](std::string_view key, std::string_view value) -> expected<bool> {
                              const auto k = keys::parse_verdict(key);
                              auto v = from_text<verdict>(value);
                              if (!k || !v)
                                return tl::unexpected(from_.damaged(family::results, task_, "it cannot be read"));
                              all.emplace_back(*k, std::move(*v));
                              return true;
                            }));
    for (const auto& [key, v] : all)
      CUDAL1_CHECK(add(key, v));
    return {};
  }

  void keep_best() {
    for (auto& [where, all] : by_class_) {
      std::ranges::sort(all, is_better);
      keep_first(all, eligible::all);
      keep_first(all, eligible::confirmed);
      keep_first(all, eligible::near_eager);
    }
    for (const auto& [experiment, best] : by_experiment_)
      kept_.insert(best.variant);
    for (const auto& [experiment, best] : near_eager_by_experiment_)
      kept_.insert(best.variant);
  }

  // Of each population that exemplars are drawn from, so that each list goes on to have some.
  expected<void> keep_exemplars() {
    for (const auto& [where, all] : by_class_) {
      const exemplar_scope scope{task_, where};
      CUDAL1_CHECK(keep_lists(scope, ""));
      CUDAL1_TRY(const auto islands, read_islands(from_, from_, scope));
      for (std::size_t i = 0; i < islands.islands.size(); ++i) {
        kept_.insert(islands.islands[i].best_variant);
        CUDAL1_CHECK(keep_lists(scope, population_of(static_cast<int64_t>(i), islands.islands[i].epoch)));
      }
    }
    return {};
  }

  expected<std::map<std::string, judged_variant>> take_removable(const std::set<std::string>& shown) {
    for (auto at = variants_.begin(); at != variants_.end();) {
      CUDAL1_TRY(const bool stays, is_kept(at->first, at->second, shown));
      at = stays ? variants_.erase(at) : std::next(at);
    }
    return std::move(variants_);
  }

 private:
  expected<void> add(const keys::verdict_key& k, const verdict& v) {
    auto& of_variant = variants_[k.variant];
    of_variant.verdicts.push_back(k);
    CUDAL1_TRY(const std::string where, class_of(v.environment_id));
    of_variant.classes.insert(where);
    if (!pruned_.contains(k.experiment)) of_variant.elsewhere = true;
    auto& all = by_class_[where];
    if (v.result != outcome::correct || !(v.score > 0)) return {};
    const candidate c{k.variant, v.score, v.confirmed, v.near_eager};
    all.push_back(c);
    note_best(by_experiment_[k.experiment], c);
    if (c.near_eager) note_best(near_eager_by_experiment_[k.experiment], c);
    return {};
  }

  static void note_best(candidate& best, const candidate& c) {
    if (best.variant.empty() || std::tie(best.confirmed, best.score) < std::tie(c.confirmed, c.score)) best = c;
  }

  expected<std::string> class_of(const std::string& environment_id) {
    if (const auto known = classes_.find(environment_id); known != classes_.end()) return known->second;
    CUDAL1_TRY(const auto where,
               read_record<environment>(from_, from_, family::environments, environment_id, "of an environment"));
    return classes_[environment_id] = environment_class(where.value_or(environment{}));
  }

  enum class eligible { all, confirmed, near_eager };
  void keep_first(const std::vector<candidate>& best_first, eligible which) {
    std::set<std::string> kept;
    for (const auto& c : best_first) {
      if (static_cast<int64_t>(kept.size()) >= rule_.best_kept) break;
      if (which == eligible::all || (c.confirmed && (which == eligible::confirmed || c.near_eager)))
        kept.insert(c.variant);
    }
    kept_.merge(kept);
  }

  expected<void> keep_lists(const exemplar_scope& scope, const std::string& population) {
    std::map<std::string, std::vector<std::pair<int64_t, std::string>>> lists;  // times, newest last
    const std::string prefix = keys::exemplar_places_of(scope.task, scope.environment_class, population);
    CUDAL1_CHECK(
        from_.scan(family::exemplars, prefix, [&](std::string_view key, std::string_view value) -> expected<bool> {
          auto place = from_text<exemplar_place>(value);
          if (!place) return tl::unexpected(from_.damaged(family::exemplars, scope.task, place.error().message));
          lists[place->list].emplace_back(place->by.time_unix_ms, keys::reader(key.substr(prefix.size())).text());
          return true;
        }));
    for (auto& [name, members] : lists) {
      std::ranges::sort(members, std::greater<>());
      for (std::size_t i = 0; i < members.size() && static_cast<int64_t>(i) < rule_.exemplars_kept; ++i)
        kept_.insert(members[i].second);
    }
    return {};
  }

  expected<bool> is_kept(const std::string& id, const judged_variant& v, const std::set<std::string>& shown) const {
    if (v.elsewhere || kept_.contains(id) || shown.contains(id)) return true;
    CUDAL1_TRY(const bool is_hack, any_record(from_, family::hacks, keys::hacks_of_variant(id)));
    if (is_hack) return true;
    return any_record(from_, family::opinions, keys::opinions_of(id));
  }

  const database& from_;
  const prune_rule& rule_;
  std::string task_;
  const std::set<std::string>& pruned_;
  std::map<std::string, judged_variant> variants_;
  std::map<std::string, std::vector<candidate>> by_class_;
  std::map<std::string, candidate> by_experiment_, near_eager_by_experiment_;
  std::map<std::string, std::string> classes_;  // by the id of an environment
  std::set<std::string> kept_;
};

}  // namespace

expected<std::map<std::string, judged_variant>> removable_variants(const database& from, const prune_rule& rule,
                                                                   const std::string& task,
                                                                   const std::set<std::string>& pruned_experiments,
                                                                   const std::set<std::string>& shown) {
  task_survey survey(from, rule, task, pruned_experiments);
  CUDAL1_CHECK(survey.read());
  survey.keep_best();
  CUDAL1_CHECK(survey.keep_exemplars());
  return survey.take_removable(shown);
}

}  // namespace cudal1
