#include "tools/cli/commands/part_search.hpp"

#include <map>
#include <set>

#include "policy/search/assembly.hpp"
#include "sandbox/device/device_names.hpp"

namespace cudal1::cli {

namespace {

// What earlier searches have done about each task, by its id.
struct earlier_search {
  int64_t evaluations = 0;
  bool is_exhausted = false;  // the policy had nothing more to propose
};

expected<std::map<std::string, earlier_search>> earlier_searches(store& records) {
  std::map<std::string, earlier_search> out;
  CUDAL1_TRY(const auto tallies, records.tallies());
  for (const auto& t : tallies)
    out[t.task].evaluations += t.evaluations;
  CUDAL1_TRY(const auto experiments, records.experiments());
  for (const auto& e : experiments)
    for (const auto& [task, why] : e.ended)
      out[task].is_exhausted = true;
  return out;
}

}  // namespace

expected<parts_to_search> choose_parts(const std::vector<task>& tasks, const environment& where, int64_t evaluations,
                                       const context& c) {
  CUDAL1_TRY(const std::string kind, kind_of_devices(where.device));
  CUDAL1_TRY(const lowering_target* target, find_lowering_target(traits_of(kind).target));
  std::unique_ptr<store> records;
  std::map<std::string, earlier_search> earlier;
  if (store_exists(c)) {
    CUDAL1_TRY(records, open_for_reading(c));
    CUDAL1_TRY(earlier, earlier_searches(*records));
  }
  parts_to_search out;
  std::set<std::string> seen;
  for (const auto& t : tasks) {
    const auto cut = partitions_of(t, *target);
    known_parts known;
    if (records) {
      CUDAL1_TRY(known, known_parts_of(*records, cut, environment_class(where)));
    }
    for (const auto& way : cut.ways)
      out.parts += std::ssize(way.parts);
    for (const task* part : distinct_tasks(cut)) {
      if (!seen.insert(part->id).second) continue;
      ++out.distinct;
      const auto& before = earlier[part->id];
      if (known.contains(part->id) && (before.is_exhausted || before.evaluations >= evaluations))
        ++out.known;
      else
        out.wanted.push_back(*part);
    }
  }
  return out;
}

}  // namespace cudal1::cli
