#include "tools/cli/report/lineage.hpp"

#include <algorithm>
#include <set>

#include "config/base/describe.hpp"
#include "policy/graph/schedule.hpp"

namespace cudal1::cli {

namespace {

std::vector<std::string> moves_of_text(const std::string& text) {
  std::vector<std::string> moves;
  if (text.empty()) return moves;
  const auto parsed = parse_schedule(text);
  if (!parsed) return {text};
  for (const auto& m : parsed->moves)
    moves.push_back(print_schedule({{m}}));
  return moves;
}

std::vector<std::string> without(const std::vector<std::string>& all, std::vector<std::string> others) {
  std::vector<std::string> left;
  for (const auto& one : all) {
    const auto found = std::ranges::find(others, one);
    if (found == others.end())
      left.push_back(one);
    else
      others.erase(found);
  }
  return left;
}

struct ancestor {
  variant_record record;
  std::optional<verdict> result;
};

lineage_step step_of(const ancestor& a) {
  lineage_step step;
  step.variant = a.record.id;
  step.origin = a.record.origin;
  step.schedule = a.record.schedule;
  step.model = a.record.model;
  step.experiment = a.record.experiment;
  step.time_unix_ms = a.record.time_unix_ms;
  if (!a.result) return step;
  step.outcome = enum_name(a.result->result);
  if (a.result->result != outcome::correct) step.reason = a.result->reason;
  step.score = a.result->score;
  step.score_interval = a.result->score_interval;
  step.confirmed = a.result->confirmed;
  return step;
}

// The best of the parents that are still in the store and not in `seen`.
expected<std::optional<ancestor>> parent_of(store& s, const variant_record& v, const std::set<std::string>& seen) {
  std::optional<ancestor> best;
  for (const auto& id : v.parents) {
    if (seen.contains(id)) continue;
    auto record = s.get_variant(id);
    if (!record && record.error().code == errc::not_found) continue;
    CUDAL1_TRY(variant_record parent, std::move(record));
    CUDAL1_TRY(auto result, counting_verdict(s, v.task, id));
    const double score = result ? result->score : 0;
    if (best && best->result && best->result->score >= score) continue;
    best = ancestor{std::move(parent), std::move(result)};
  }
  return best;
}

}  // namespace

move_changes changes_between(const std::string& before, const std::string& after) {
  const auto old_moves = moves_of_text(before), new_moves = moves_of_text(after);
  return {without(new_moves, old_moves), without(old_moves, new_moves)};
}

expected<std::optional<verdict>> counting_verdict(store& s, const std::string& task, const std::string& variant) {
  CUDAL1_TRY(auto all, s.recorded_verdicts(task, variant));
  std::optional<verdict> chosen;
  for (auto& one : all)
    if (!chosen || one.result.confirmed || !chosen->confirmed) chosen = std::move(one.result);
  return chosen;
}

expected<std::vector<lineage_step>> lineage_of(store& s, const variant_record& variant) {
  CUDAL1_TRY(auto result, counting_verdict(s, variant.task, variant.id));
  std::vector<ancestor> line{{variant, std::move(result)}};
  std::set<std::string> seen{variant.id};
  while (line.size() < most_ancestors) {
    CUDAL1_TRY(auto parent, parent_of(s, line.back().record, seen));
    if (!parent) break;
    seen.insert(parent->record.id);
    line.push_back(std::move(*parent));
  }
  std::ranges::reverse(line);
  std::vector<lineage_step> steps;
  std::string before;
  for (const auto& a : line) {
    steps.push_back(step_of(a));
    steps.back().moves = changes_between(before, a.record.schedule);
    const auto parents = std::ssize(a.record.parents);
    steps.back().other_parents = steps.size() == 1 ? 0 : std::max<int64_t>(parents - 1, 0);
    before = a.record.schedule;
  }
  return steps;
}

}  // namespace cudal1::cli
