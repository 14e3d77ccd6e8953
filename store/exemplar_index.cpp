#include "store/exemplar_index.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "store/encoding.hpp"
#include "store/records.hpp"

namespace cudal1 {

namespace {

std::string list_of(const exemplar_entry& e) {
  return e.result == outcome::correct ? std::to_string(bucket_of(e.score)) : enum_name(e.result);
}

// Whether a variant stands by `now` rather than `before`: the newer verdict, unless the older one is confirmed and the
// newer one is not, or the newer one could not be measured.
bool replaces(const exemplar_entry& now, const exemplar_entry& before) {
  if (before.result == outcome::correct) {
    if (now.result == outcome::unmeasurable) return false;
    if (now.result == outcome::correct && before.confirmed != now.confirmed) return now.confirmed;
  }
  return now.time_unix_ms >= before.time_unix_ms;
}

// Changes one population in the batch.
class population_index {
 public:
  population_index(write_batch& batch, const exemplar_scope& scope, std::string population)
      : batch_(batch), scope_(scope), population_(std::move(population)) {}

  expected<void> add(const std::string& variant, const exemplar_entry& entry) {
    CUDAL1_TRY(const auto before, read_place(batch_, batch_.on_disk(), scope_, population_, variant));
    if (before && !replaces(entry, before->by)) return {};
    CUDAL1_TRY(auto lists, read_lists(batch_, batch_.on_disk(), scope_, population_));
    if (before) CUDAL1_CHECK(remove(lists, *before));
    const auto name = list_of(entry);
    auto& list = lists.lists[name];
    const exemplar_place place{name, list.count, entry};
    ++list.count;
    list.sum += entry.score;
    put_place(variant, place);
    put(keys::exemplar_lists(scope_.task, scope_.environment_class, population_), encode(lists));
    return {};
  }

  // Whether it was there.
  expected<bool> erase(const std::string& variant) {
    CUDAL1_TRY(const auto before, read_place(batch_, batch_.on_disk(), scope_, population_, variant));
    if (!before) return false;
    CUDAL1_TRY(auto lists, read_lists(batch_, batch_.on_disk(), scope_, population_));
    CUDAL1_CHECK(remove(lists, *before));
    put(keys::exemplar_place(scope_.task, scope_.environment_class, population_, variant), std::nullopt);
    put(keys::exemplar_lists(scope_.task, scope_.environment_class, population_), encode(lists));
    return true;
  }

 private:
  // The list's last variant takes the slot that becomes free.
  expected<void> remove(exemplar_lists& lists, const exemplar_place& place) {
    auto& list = lists.lists[place.list];
    const int64_t last = --list.count;
    list.sum -= place.by.score;
    if (last != place.slot) {
      CUDAL1_TRY(const auto moved, read_slot(batch_, batch_.on_disk(), scope_, population_, place.list, last));
      CUDAL1_TRY(auto its_place, read_place(batch_, batch_.on_disk(), scope_, population_, moved));
      if (!its_place)
        return tl::unexpected(batch_.on_disk().damaged(family::exemplars, moved, "it has a slot, but no place"));
      its_place->slot = place.slot;
      put_place(moved, *its_place);
    }
    put(keys::exemplar_slot(scope_.task, scope_.environment_class, population_, place.list, last), std::nullopt);
    if (last == 0) lists.lists.erase(place.list);
    return {};
  }

  void put_place(const std::string& variant, const exemplar_place& place) {
    put(keys::exemplar_place(scope_.task, scope_.environment_class, population_, variant), encode(place));
    put(keys::exemplar_slot(scope_.task, scope_.environment_class, population_, place.list, place.slot), variant);
  }
  void put(std::string key, std::optional<std::string> value) {
    batch_.add({family::exemplars, std::move(key), std::move(value)});
  }

  write_batch& batch_;
  const exemplar_scope& scope_;
  std::string population_;
};

// A variant of the population's highest bucket.
expected<std::pair<std::string, double>> find_best(const write_batch& batch, const exemplar_scope& scope,
                                                   const std::string& population) {
  CUDAL1_TRY(const auto lists, read_lists(batch, batch.on_disk(), scope, population));
  const std::string* highest = nullptr;
  for (const auto& [name, list] : lists.lists)
    if (is_bucket(name) && (highest == nullptr || std::stoi(name) > std::stoi(*highest))) highest = &name;
  if (highest == nullptr) return std::pair<std::string, double>();
  CUDAL1_TRY(auto variant, read_slot(batch, batch.on_disk(), scope, population, *highest, 0));
  CUDAL1_TRY(const auto place, read_place(batch, batch.on_disk(), scope, population, variant));
  return std::pair(std::move(variant), place ? place->by.score : 0.0);
}

void put_islands(write_batch& batch, const exemplar_scope& scope, const islands_record& r) {
  batch.add({family::exemplars, keys::islands(scope.task, scope.environment_class), encode(r)});
}

}  // namespace

bool is_bucket(const std::string& list) {
  return list.front() == '-' || (list.front() >= '0' && list.front() <= '9');
}

std::string population_of(int64_t island, int64_t epoch) {
  return island == no_island ? "" : fmt::format("{}/{}", island, epoch);
}

expected<exemplar_lists> read_lists(const record_source& from, const stored_records& on_disk,
                                    const exemplar_scope& scope, const std::string& population) {
  const auto key = keys::exemplar_lists(scope.task, scope.environment_class, population);
  CUDAL1_TRY(auto stored,
             read_record<exemplar_lists>(from, on_disk, family::exemplars, key, "of the lists of a population"));
  return stored ? std::move(*stored) : exemplar_lists();
}

expected<std::optional<exemplar_place>> read_place(const record_source& from, const stored_records& on_disk,
                                                   const exemplar_scope& scope, const std::string& population,
                                                   const std::string& variant) {
  const auto key = keys::exemplar_place(scope.task, scope.environment_class, population, variant);
  return read_record<exemplar_place>(from, on_disk, family::exemplars, key, variant);
}

expected<std::string> read_slot(const record_source& from, const stored_records& on_disk, const exemplar_scope& scope,
                                const std::string& population, const std::string& list, int64_t slot) {
  const auto key = keys::exemplar_slot(scope.task, scope.environment_class, population, list, slot);
  CUDAL1_TRY(auto variant, from.get(family::exemplars, key));
  if (!variant)
    return tl::unexpected(on_disk.damaged(family::exemplars, fmt::format("slot {} of list {}", slot, list),
                                          "the list has it, but its record is missing"));
  return std::move(*variant);
}

expected<islands_record> read_islands(const record_source& from, const stored_records& on_disk,
                                      const exemplar_scope& scope) {
  const auto key = keys::islands(scope.task, scope.environment_class);
  CUDAL1_TRY(auto stored,
             read_record<islands_record>(from, on_disk, family::exemplars, key, "of the islands of a task"));
  return stored ? std::move(*stored) : islands_record();
}

expected<void> index_verdict(write_batch& batch, const exemplar_scope& scope, const std::string& variant,
                             int64_t island, const exemplar_entry& entry) {
  if (entry.result == outcome::quarantined) return {};
  if (island >= most_islands)
    return fail(errc::invalid_argument, "variant {} is of island {}: there are at most {}", variant, island,
                most_islands);
  CUDAL1_CHECK(population_index(batch, scope, "").add(variant, entry));
  if (island < 0) return {};
  CUDAL1_TRY(auto all, read_islands(batch, batch.on_disk(), scope));
  const auto place = static_cast<std::size_t>(island);
  all.islands.resize(std::max(all.islands.size(), place + 1));
  auto& own = all.islands[place];
  const auto population = population_of(island, own.epoch);
  CUDAL1_CHECK(population_index(batch, scope, population).add(variant, entry));
  if (variant == own.best_variant) {  // it may stand by another verdict now
    CUDAL1_TRY(std::tie(own.best_variant, own.best), find_best(batch, scope, population));
  } else if (entry.result == outcome::correct && entry.score > own.best) {
    std::tie(own.best_variant, own.best) = std::tie(variant, entry.score);
  }
  put_islands(batch, scope, all);
  return {};
}

expected<void> unindex_variant(write_batch& batch, const exemplar_scope& scope, const std::string& variant) {
  CUDAL1_CHECK(population_index(batch, scope, "").erase(variant));
  CUDAL1_TRY(auto all, read_islands(batch, batch.on_disk(), scope));
  bool changed = false;
  for (std::size_t i = 0; i < all.islands.size(); ++i) {
    auto& island = all.islands[i];
    const auto population = population_of(static_cast<int64_t>(i), island.epoch);
    CUDAL1_TRY(const bool was_there, population_index(batch, scope, population).erase(variant));
    if (!was_there || variant != island.best_variant) continue;
    CUDAL1_TRY(std::tie(island.best_variant, island.best), find_best(batch, scope, population));
    changed = true;
  }
  if (changed) put_islands(batch, scope, all);
  return {};
}

expected<void> reset_islands(write_batch& batch, const exemplar_scope& scope, uint64_t seed) {
  CUDAL1_TRY(auto all, read_islands(batch, batch.on_disk(), scope));
  std::vector<std::size_t> order(all.islands.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return all.islands[i].best; });
  const auto living = std::ranges::count_if(all.islands, [](const auto& i) { return i.best > 0; });
  if (living < 2)
    return fail(errc::not_found, "fewer than two islands have a correct variant: there is nothing to reset them from");
  const std::size_t kept = (order.size() + 1) / 2;
  const auto founders = std::min(kept, static_cast<std::size_t>(living));
  for (std::size_t i = kept; i < order.size(); ++i) {
    const auto from = order[draw_below(founders, seed)];
    const auto& founder = all.islands[from];
    const auto population = population_of(static_cast<int64_t>(from), founder.epoch);
    CUDAL1_TRY(const auto place, read_place(batch, batch.on_disk(), scope, population, founder.best_variant));
    if (!place)
      return tl::unexpected(batch.on_disk().damaged(family::exemplars, founder.best_variant,
                                                    "it is the best of its island, but not on it"));
    auto& emptied = all.islands[order[i]];
    emptied = {emptied.epoch + 1, founder.best, founder.best_variant};
    CUDAL1_CHECK(population_index(batch, scope, population_of(static_cast<int64_t>(order[i]), emptied.epoch))
                     .add(founder.best_variant, place->by));
  }
  put_islands(batch, scope, all);
  return {};
}

}  // namespace cudal1
