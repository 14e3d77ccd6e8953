// Drawing exemplars.
#include <algorithm>

#include "store/exemplar_index.hpp"
#include "store/queries.hpp"
#include "store/task_similarity.hpp"

namespace cudal1 {

namespace {

// Variants that were drawn, with the verdicts they stand by.
struct drawn_variant {
  std::string variant;
  exemplar_entry by;
};

class population_reader {
 public:
  population_reader(const stored_records& d, exemplar_scope scope, std::string population)
      : database_(d), scope_(std::move(scope)), population_(std::move(population)) {}

  expected<exemplar_lists> lists() const { return read_lists(database_, database_, scope_, population_); }

  // One variant of each of `n` buckets; where there are fewer, further ones of these, each in turn.
  expected<std::vector<drawn_variant>> correct(const exemplar_lists& all, std::size_t n, double temperature,
                                               uint64_t& random) const {
    std::vector<std::string> names;
    std::vector<exemplar_list> buckets;
    for (const auto& [name, list] : all.lists) {
      if (!is_bucket(name)) continue;
      names.push_back(name);
      buckets.push_back(list);
    }
    const auto order = draw_buckets(buckets, temperature, n, random);
    std::vector<std::size_t> wanted(order.size(), 0);
    for (std::size_t left = n, before = n + 1; left > 0 && left < before;) {
      before = left;
      for (std::size_t i = 0; i < order.size() && left > 0; ++i)
        if (static_cast<int64_t>(wanted[i]) < buckets[order[i]].count) ++wanted[i], --left;
    }
    std::vector<drawn_variant> drawn;
    for (std::size_t i = 0; i < order.size(); ++i)
      for (const auto slot : draw_slots(buckets[order[i]].count, wanted[i], random))
        CUDAL1_CHECK(add(drawn, names[order[i]], slot));
    return drawn;
  }

  expected<std::vector<drawn_variant>> failed(const exemplar_lists& all, std::size_t n, uint64_t& random) const {
    int64_t count = 0;
    for (const auto& [name, list] : all.lists)
      if (!is_bucket(name)) count += list.count;
    std::vector<drawn_variant> drawn;
    for (auto place : draw_slots(count, n, random)) {
      for (const auto& [name, list] : all.lists) {
        if (is_bucket(name)) continue;
        if (place < list.count) {
          CUDAL1_CHECK(add(drawn, name, place));
          break;
        }
        place -= list.count;
      }
    }
    return drawn;
  }

 private:
  expected<void> add(std::vector<drawn_variant>& to, const std::string& list, int64_t slot) const {
    CUDAL1_TRY(auto variant, read_slot(database_, database_, scope_, population_, list, slot));
    CUDAL1_TRY(const auto place, read_place(database_, database_, scope_, population_, variant));
    if (!place) return tl::unexpected(database_.damaged(family::exemplars, variant, "it has a slot, but no place"));
    to.push_back({std::move(variant), place->by});
    return {};
  }

  const stored_records& database_;
  exemplar_scope scope_;
  std::string population_;
};

std::vector<keys::verdict_key> keys_of(const std::vector<drawn_variant>& drawn, const std::string& task) {
  std::vector<keys::verdict_key> keys;
  for (const auto& d : drawn)
    keys.push_back({d.variant, d.by.experiment, task, d.by.attempt});
  return keys;
}

bool has_buckets(const exemplar_lists& all) {
  return std::ranges::any_of(all.lists, [](const auto& entry) { return is_bucket(entry.first); });
}

expected<void> check_query(const exemplar_query& q) {
  if (!(q.temperature > 0))
    return fail(errc::invalid_argument, "the temperature of exemplars is {}, but should be above 0", q.temperature);
  if (q.scheme == sampling_scheme::islands && (q.islands < 1 || q.islands > most_islands))
    return fail(errc::invalid_argument, "there are {} islands, but 1 to {} are possible", q.islands, most_islands);
  return {};
}

}  // namespace

expected<std::vector<stored_exemplar>> store_queries::load_exemplars(const std::vector<keys::verdict_key>& which,
                                                                     double similarity) {
  std::vector<stored_exemplar> out;
  for (const auto& k : which) {
    CUDAL1_TRY(auto v, load_summary(k));
    CUDAL1_CHECK(load_details(keys::verdict(k), v));
    CUDAL1_TRY(auto variant, load_with_schedule(k));
    out.push_back({std::move(variant), std::move(v), similarity});
  }
  return out;
}

// The most similar tasks that have correct variants in the class, until `n` variants are found.
expected<std::vector<stored_exemplar>> store_queries::borrow_exemplars(const exemplar_query& q, uint64_t& random) {
  CUDAL1_TRY(const auto own, get_task(q.task));
  CUDAL1_TRY(const auto own_features, features_of(own));
  CUDAL1_TRY(const auto all, tasks());
  std::vector<std::pair<double, std::string>> alike;
  for (const auto& t : all) {
    if (t.id == q.task || t.profile != own.profile) continue;
    CUDAL1_TRY(const auto features, features_of(t));
    if (const double how = similarity(own_features, features); how >= least_similarity) alike.emplace_back(how, t.id);
  }
  std::ranges::stable_sort(alike, std::greater<>(), &std::pair<double, std::string>::first);
  std::vector<stored_exemplar> out;
  for (const auto& [how, id] : alike) {
    if (out.size() >= q.correct) break;
    const population_reader population(*database_, {id, q.environment_class}, "");
    CUDAL1_TRY(const auto lists, population.lists());
    if (!has_buckets(lists)) continue;
    CUDAL1_TRY(const auto drawn, population.correct(lists, q.correct - out.size(), q.temperature, random));
    CUDAL1_TRY(auto loaded, load_exemplars(keys_of(drawn, id), how));
    std::ranges::move(loaded, std::back_inserter(out));
  }
  return out;
}

expected<exemplar_sample> store_queries::sample_exemplars(const exemplar_query& q) {
  CUDAL1_CHECK(check_query(q));
  uint64_t random = q.seed;
  const exemplar_scope scope{q.task, q.environment_class};
  exemplar_sample sample;
  std::string population;
  if (q.scheme == sampling_scheme::islands) {
    sample.island = static_cast<int64_t>(draw_below(static_cast<uint64_t>(q.islands), random));
    CUDAL1_TRY(const auto all, read_islands(*database_, *database_, scope));
    const auto place = static_cast<std::size_t>(sample.island);
    population = population_of(sample.island, place < all.islands.size() ? all.islands[place].epoch : 0);
  }
  CUDAL1_TRY(auto lists, read_lists(*database_, *database_, scope, population));
  if (!has_buckets(lists) && !population.empty()) {  // an island begins with what all have
    population = "";
    CUDAL1_TRY(lists, read_lists(*database_, *database_, scope, population));
  }
  const population_reader from(*database_, scope, population);
  CUDAL1_TRY(const auto correct, from.correct(lists, q.correct, q.temperature, random));
  CUDAL1_TRY(const auto failed, from.failed(lists, q.failed, random));
  CUDAL1_TRY(sample.correct, load_exemplars(keys_of(correct, q.task), 1));
  CUDAL1_TRY(sample.failed, load_exemplars(keys_of(failed, q.task), 1));
  if (sample.correct.empty() && q.correct > 0) {
    CUDAL1_TRY(sample.correct, borrow_exemplars(q, random));
  }
  std::ranges::stable_sort(sample.correct, std::greater<>(), [](const auto& e) { return e.result.score; });
  std::ranges::stable_sort(sample.failed, std::greater<>(), [](const auto& e) { return e.result.time_unix_ms; });
  return sample;
}

}  // namespace cudal1
