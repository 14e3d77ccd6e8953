// Reading groups, what they were paid, and verdicts to reuse.
#include <algorithm>

#include "store/conclusions.hpp"
#include "store/group_records.hpp"
#include "store/queries.hpp"

namespace cudal1 {

expected<std::optional<verdict>> store_queries::verdict_in_class(const std::string& task, const std::string& variant,
                                                                 const std::string& environment_class) {
  CUDAL1_TRY(const auto where, read_conclusion(*database_, *database_, task, environment_class, variant));
  if (!where) return std::optional<verdict>();
  const keys::verdict_key key{variant, where->experiment, task, where->attempt};
  CUDAL1_TRY(auto v, load_summary(key));
  CUDAL1_CHECK(load_details(keys::verdict(key), v));
  v.reused_from = where->experiment;
  return std::optional<verdict>(std::move(v));
}

expected<group_record> store_queries::get_group(const std::string& id) {
  return read_group(*database_, *database_, id);
}

expected<std::vector<group_record>> store_queries::groups_of_experiment(const std::string& experiment) {
  return load_all<group_record>(*database_, family::groups, keys::groups_of(experiment));
}

expected<std::vector<group_record>> store_queries::open_groups(const std::string& experiment) {
  const std::string prefix = keys::open_groups_of(experiment);
  std::vector<std::string> ids;
  CUDAL1_CHECK(database_->scan(family::groups, prefix, [&](std::string_view key, std::string_view) -> expected<bool> {
    ids.push_back(fmt::format("{}/{}", experiment, keys::reader(key.substr(prefix.size())).number()));
    return true;
  }));
  std::vector<group_record> out;
  for (const auto& id : ids) {
    CUDAL1_TRY(auto g, get_group(id));
    out.push_back(std::move(g));
  }
  return out;
}

expected<std::vector<std::string>> store_queries::variants_of_group(const std::string& id) {
  CUDAL1_TRY(const auto group, group_key_of(id));
  std::vector<std::pair<uint64_t, std::string>> members;
  CUDAL1_CHECK(database_->scan(
      family::groups, keys::variants_of(group), [&](std::string_view key, std::string_view value) -> expected<bool> {
        auto variant = keys::parse_group_variant(key);
        if (!variant) return tl::unexpected(database_->damaged(family::groups, id, "a variant's key is malformed"));
        members.emplace_back(keys::reader(value).number(), std::move(*variant));
        return true;
      }));
  std::ranges::sort(members);
  std::vector<std::string> ids;
  for (auto& [place, variant] : members)
    ids.push_back(std::move(variant));
  return ids;
}

expected<reward_record> store_queries::get_rewards(const std::string& group) {
  CUDAL1_TRY(const auto key, group_key_of(group));
  CUDAL1_TRY(auto found, load<reward_record>(*database_, family::groups, keys::rewards(key), group));
  if (!found) return fail(errc::not_found, "the store {} has no rewards of group {}", database_->folder(), group);
  return std::move(*found);
}

expected<std::vector<reward_record>> store_queries::rewards_of_experiment(const std::string& experiment) {
  return load_all<reward_record>(*database_, family::groups, keys::rewards_of(experiment));
}

}  // namespace cudal1
