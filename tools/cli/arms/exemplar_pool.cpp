#include "tools/cli/arms/exemplar_pool.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "config/base/split_mix.hpp"
#include "store/exemplars.hpp"

namespace cudal1::cli {

namespace {

// Places in `of`, ascending: best first.
std::vector<std::size_t> drawn(const std::vector<pool_variant>& of, std::size_t count, double temperature,
                               uint64_t seed) {
  std::map<int, std::vector<std::size_t>> by_bucket;
  for (std::size_t i = 0; i < of.size(); ++i)
    by_bucket[bucket_of(of[i].result.score)].push_back(i);
  std::vector<exemplar_list> lists;
  std::vector<const std::vector<std::size_t>*> members;
  for (const auto& [bucket, places] : by_bucket) {
    exemplar_list list{std::ssize(places), 0};
    for (const std::size_t i : places)
      list.sum += of[i].result.score;
    lists.push_back(list);
    members.push_back(&places);
  }
  uint64_t random = split_mix(seed);
  std::set<std::size_t> out;
  for (const std::size_t b : draw_buckets(std::move(lists), temperature, count, random))
    out.insert((*members[b])[draw_below(members[b]->size(), random)]);
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < of.size(); ++i)
    if (!out.contains(i)) others.push_back(i);
  if (out.size() < count)
    for (const int64_t i : draw_slots(std::ssize(others), count - out.size(), random))
      out.insert(others[static_cast<std::size_t>(i)]);
  return {out.begin(), out.end()};
}

}  // namespace

expected<exemplar_pool> pool_of(store& from, const std::string& experiment, const std::vector<task>& tasks) {
  constexpr std::size_t most = 100'000;
  exemplar_pool out;
  for (const auto& t : tasks) {
    auto& to = out.tasks[t.name];
    std::set<std::string> seen;
    CUDAL1_TRY(auto ranked, from.best(t.id, most, store::ranking::all, experiment));
    for (auto& r : ranked) {
      if (!(r.result.score > 0) || r.result.environment_id.empty() || !seen.insert(r.variant.id).second) continue;
      if (out.where.id.empty()) {
        CUDAL1_TRY(out.where, from.get_environment(r.result.environment_id));
      }
      r.result.samples.clear();
      r.result.checks.clear();
      to.push_back({std::move(r.variant), std::move(r.result)});
    }
    std::ranges::stable_sort(to, std::greater<>(), [](const auto& v) { return v.result.score; });
  }
  if (out.where.id.empty())
    return fail(errc::not_found, "experiment {} has no correct variant of the tasks that are held out", experiment);
  return out;
}

expected<std::vector<exemplar>> draw_exemplars(const std::vector<pool_variant>& of, const plan_prompts& how,
                                               arm_prompt shown_as, uint64_t seed) {
  std::vector<exemplar> out;
  if (shown_as == arm_prompt::one_shot) return out;
  const auto places = drawn(of, static_cast<std::size_t>(how.exemplars), how.temperature, seed);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::size_t measured = shown_as == arm_prompt::shuffled ? places[(i + 1) % places.size()] : places[i];
    stored_exemplar shown{of[places[i]].variant, of[measured].result, 1};
    shown.result.variant = shown.variant.id;
    // What was written before the scores were exchanged would tell.
    if (shown_as == arm_prompt::shuffled) shown.variant.analysis.clear();
    CUDAL1_TRY(out.emplace_back(), exemplar_of(std::move(shown)));
  }
  std::ranges::stable_sort(out, std::greater<>(), [](const exemplar& e) { return e.score(); });
  return out;
}

}  // namespace cudal1::cli
