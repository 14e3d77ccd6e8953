#include "store/group_records.hpp"

#include <algorithm>

#include "store/encoding.hpp"
#include "store/records.hpp"

namespace cudal1 {

namespace {

void put_group_record(write_batch& batch, const keys::group_key& key, const group_record& g) {
  batch.add({family::groups, keys::group(key), encode(g)});
  batch.add({family::groups, keys::open_group(key), g.closed ? std::nullopt : std::optional<std::string>("")});
}

expected<uint64_t> next_number(const write_batch& batch, const std::string& experiment) {
  CUDAL1_TRY(const auto last, batch.get(family::groups, keys::last_group(experiment)));
  return last ? keys::reader(*last).number() + 1 : 1;
}

// Of a variant among those of its group, in the order of reservation; nothing if it is there already.
expected<std::optional<uint64_t>> place_in_group(const write_batch& batch, const keys::group_key& key,
                                                 const std::string& variant) {
  CUDAL1_TRY(const auto known, batch.get(family::groups, keys::group_variant(key, variant)));
  if (known) return std::optional<uint64_t>();
  uint64_t members = 0;  // a group is as small as one prompt's answers
  CUDAL1_CHECK(
      batch.scan(family::groups, keys::variants_of(key), [&](std::string_view, std::string_view) -> expected<bool> {
        ++members;
        return true;
      }));
  return std::optional<uint64_t>(members);
}

}  // namespace

expected<keys::group_key> group_key_of(const std::string& id) {
  auto key = keys::parse_group(id);
  if (!key) return fail(errc::not_found, "there is no group \"{}\"; the groups of e3 are named e3/1, e3/2, ...", id);
  return std::move(*key);
}

expected<group_record> read_group(const record_source& from, const stored_records& on_disk, const std::string& id) {
  CUDAL1_TRY(const auto key, group_key_of(id));
  CUDAL1_TRY(auto found, read_record<group_record>(from, on_disk, family::groups, keys::group(key), id));
  if (!found) return fail(errc::not_found, "the store {} has no group {}", on_disk.folder(), id);
  return std::move(*found);
}

expected<group_record> add_group(write_batch& batch, group_record g) {
  if (!keys::experiment_number(g.experiment) || g.task.empty())
    return fail(errc::invalid_argument, "a group needs its experiment and its task (experiment \"{}\", task \"{}\")",
                g.experiment, g.task);
  CUDAL1_TRY(const uint64_t next, next_number(batch, g.experiment));
  if (g.id.empty()) g.id = fmt::format("{}/{}", g.experiment, next);
  CUDAL1_TRY(const auto key, group_key_of(g.id));
  if (key.experiment != g.experiment)
    return fail(errc::invalid_argument, "group {} is not of experiment {}", g.id, g.experiment);
  if (key.number >= next)
    batch.add({family::groups, keys::last_group(g.experiment), keys::writer().number(key.number).take()});
  put_group_record(batch, key, g);
  return g;
}

void answer_cost::add(const answer_cost& other) {
  answers += other.answers;
  prompt_tokens += other.prompt_tokens;
  answer_tokens += other.answer_tokens;
  money += other.money;
  seconds += other.seconds;
  cached += other.cached;
  prompt_seconds += other.prompt_seconds;
  cache_bytes = std::max(cache_bytes, other.cache_bytes);
  model_bytes = std::max(model_bytes, other.model_bytes);
}

expected<void> close_group(write_batch& batch, const std::string& id, const answer_cost& cost) {
  CUDAL1_TRY(auto g, read_group(batch, batch.on_disk(), id));
  if (g.closed) return {};
  g.closed = true;
  g.cost = cost;
  CUDAL1_TRY(const auto key, group_key_of(id));
  put_group_record(batch, key, g);
  return {};
}

expected<void> add_to_group(write_batch& batch, const variant_record& v, const std::string& experiment) {
  if (v.group.empty()) return {};
  CUDAL1_TRY(const auto key, group_key_of(v.group));
  if (key.experiment != experiment) return {};
  CUDAL1_TRY(const auto group, read_group(batch, batch.on_disk(), v.group));
  if (group.task != v.task)
    return fail(errc::invalid_argument, "variant {} is of another task than its group {}", v.id, v.group);
  CUDAL1_TRY(const auto place, place_in_group(batch, key, v.id));
  if (place) batch.add({family::groups, keys::group_variant(key, v.id), keys::writer().number(*place).take()});
  return {};
}

expected<void> add_rewards(write_batch& batch, const reward_record& r) {
  CUDAL1_TRY(const auto key, group_key_of(r.group));
  const std::size_t members = r.variants.size();
  if (r.attempts.size() != members || r.scores.size() != members || r.rewards.size() != members)
    return fail(errc::invalid_argument,
                "the rewards of group {} are of {} variants, but {} attempts, {} scores, {} rewards", r.group, members,
                r.attempts.size(), r.scores.size(), r.rewards.size());
  CUDAL1_CHECK(read_group(batch, batch.on_disk(), r.group));
  batch.add({family::groups, keys::rewards(key), encode(r)});
  return {};
}

}  // namespace cudal1
