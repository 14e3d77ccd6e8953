#include "tools/cli/commands/part_search.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "policy/search/assembly.hpp"
#include "policy/search/schedule_builder.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/program/operators/work.hpp"

namespace cudal1::cli {

namespace {

// What earlier searches have done about each task on devices of a model, by the task's id.
struct earlier_search {
  int64_t evaluations = 0;
  bool is_exhausted = false;  // the policy had nothing more to propose
};
using earlier_searches = std::map<std::string, earlier_search>;

expected<earlier_searches> earlier_searches_on(store& records, const std::string& model) {
  earlier_searches out;
  CUDAL1_TRY(const auto experiments, records.experiments());
  for (const auto& e : experiments) {
    if (e.model != model) continue;
    CUDAL1_TRY(const auto tallies, records.tallies(e.id));
    for (const auto& t : tallies)
      out[t.task].evaluations += t.evaluations;
    for (const auto& [task, evaluations] : e.imported)
      out[task].evaluations += evaluations;
    for (const auto& [task, why] : e.ended)
      out[task].is_exhausted = true;
  }
  return out;
}

// What one environment's results say about parts.
class part_knowledge {
 public:
  static expected<part_knowledge> read(store& records, const environment& where) {
    part_knowledge out;
    out.class_ = environment_class(where);
    CUDAL1_TRY(out.earlier_, earlier_searches_on(records, where.model));
    return out;
  }
  expected<bool> has(store& records, const task& part, int64_t evaluations) {
    const auto& before = earlier_[part.id];
    if (!before.is_exhausted && before.evaluations < evaluations) return false;
    CUDAL1_TRY(const auto best, best_variant_of_part(records, part, class_));
    return best.has_value();
  }

 private:
  std::string class_;
  earlier_searches earlier_;
};

// A rough measure of how long a part takes, in bytes.
double work_of_part(const task& part) {
  constexpr double flops_per_byte = 20;
  const auto work = work_of(part);
  return static_cast<double>(work.bytes()) + work.flops.total() / flops_per_byte;
}

// How long an evaluation of it takes, relative to that of a small part: as many bytes are drawn, computed with and
// compared for the gates in as much time again.
double cost_of_evaluation(const task& part) {
  constexpr double bytes_of_as_much = 64e6;
  return 1 + static_cast<double>(work_of(part).bytes()) / bytes_of_as_much;
}

// The shares of a task's work that its parts have, by their ids; of several ways to cut it, the largest.
std::map<std::string, double> shares_of_work(const std::vector<task_partitions>& layouts) {
  std::map<std::string, double> shares;
  for (const auto& cut : layouts)
    for (const auto& way : cut.ways) {
      std::map<std::string, double> work;
      double all = 0;
      for (const auto& part : way.parts) {
        const double one = work_of_part(part.what);
        work[part.what.id] += one;
        all += one;
      }
      for (const auto& [id, some] : work)
        shares[id] = std::max(shares[id], some / std::max(all, 1.0));
    }
  return shares;
}

// Whether there is anything to choose but how the part is launched. A library call that no kernel replaces has one
// time, which is worth knowing only after all others.
bool has_choices(const task& part, const lowering_target& target) {
  const schedule_builder b(part, target);
  for (const auto phase : {move_phase::always, move_phase::grouping, move_phase::implementation})
    for (const move_kind* kind : moves_of(phase))
      for (const auto& m : kind->candidates(b.state(), target)) {
        schedule_builder after = b;
        if (after.add(m)) return true;
      }
  return false;
}

bool is_one_part(const task_partitions& cut) {
  return cut.ways.size() == 1 && cut.ways[0].parts.size() == 1 && cut.ways[0].apart.empty() && cut.replaced.empty();
}

}  // namespace

expected<parts_to_search> choose_parts(const std::vector<task>& tasks, const std::vector<environment>& where,
                                       int64_t evaluations, const context& c) {
  CUDAL1_TRY(const std::string kind, kind_of_devices(where.front().device));
  CUDAL1_TRY(const lowering_target* target, find_lowering_target(traits_of(kind).target));
  std::unique_ptr<store> records;
  std::vector<part_knowledge> known;
  if (store_exists(c)) {
    CUDAL1_TRY(records, open_for_reading(c));
    for (const auto& each : where) {
      CUDAL1_TRY(known.emplace_back(), part_knowledge::read(*records, each));
    }
  }
  parts_to_search out;
  std::map<std::string, task> parts;
  std::map<std::string, double> shares;  // summed over the tasks
  for (const auto& t : tasks) {
    const auto layouts = partitions_by_layout(t, *target);
    if (is_one_part(layouts.front())) continue;
    for (const auto& cut : layouts)
      for (const auto& way : cut.ways)
        for (const auto& part : way.parts) {
          ++out.parts;
          parts.try_emplace(part.what.id, part.what);
        }
    for (const auto& [id, share] : shares_of_work(layouts))
      shares[id] += share;
  }
  out.distinct = std::ssize(parts);
  std::multimap<std::pair<bool, double>, const task*, std::greater<>> wanted;
  for (const auto& [id, part] : parts) {
    bool everywhere = !known.empty();
    for (auto& each : known) {
      CUDAL1_TRY(const bool has, each.has(*records, part, evaluations));
      everywhere = everywhere && has;
    }
    if (everywhere)
      ++out.known;
    else
      wanted.emplace(std::pair(has_choices(part, *target), shares[id] / cost_of_evaluation(part)), &part);
  }
  for (const auto& [order, part] : wanted)
    out.wanted.push_back(*part);
  return out;
}

}  // namespace cudal1::cli
