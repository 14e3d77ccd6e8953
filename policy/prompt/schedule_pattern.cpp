#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "policy/moves/move_registry.hpp"
#include "policy/prompt/answer_shape.hpp"

namespace cudal1 {

namespace {

using pattern = byte_pattern;

constexpr std::size_t most_values = 200;  // of one parameter

// Values of each parameter, by the name of the move.
using seen_values = std::map<std::string, std::map<std::string, std::set<std::string>>>;

void note_candidates(const graph& g, const move_kind& kind, const lowering_target& target, seen_values& to) {
  for (const auto& m : kind.candidates(g, target)) {
    auto& values = to[kind.name];
    for (const auto& [name, value] : m.parameters)
      if (auto& known = values[name]; known.size() < most_values) known.insert(value);
  }
}

// Moves of earlier phases make groups that later ones name: each phase's candidates are seen on the program as it is,
// and after all legal groupings.
seen_values values_of(const task& t, const lowering_target& target) {
  seen_values out;
  graph g(t), grouped(t);
  for (const auto phase : move_phases)
    for (const auto* kind : moves_of(phase)) {
      note_candidates(g, *kind, target, out);
      note_candidates(grouped, *kind, target, out);
      if (phase != move_phase::always && phase != move_phase::grouping) continue;
      for (const auto& m : kind->candidates(grouped, target)) {
        graph trial = grouped;
        if (apply_move(trial, m, target)) grouped = std::move(trial);
      }
    }
  return out;
}

pattern parameter(const std::string& name, const std::set<std::string>& values) {
  return pattern::sequence(
      {pattern::text(name + "="), pattern::one_of(std::vector<std::string>(values.begin(), values.end()))});
}

// None if a parameter that it needs has no value here.
std::optional<pattern> move_pattern(const move_kind& kind, const std::map<std::string, std::set<std::string>>& values) {
  std::vector<pattern> parts{pattern::text(kind.name + "(")};
  bool first = true;
  for (const auto& name : kind.parameters) {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    if (!first) parts.push_back(pattern::text(", "));
    parts.push_back(parameter(name, found->second));
    first = false;
  }
  for (const auto& name : kind.optional)
    if (const auto found = values.find(name); found != values.end() && !first)
      parts.push_back(pattern::choice(
          {pattern::text(""), pattern::sequence({pattern::text(", "), parameter(name, found->second)})}));
  parts.push_back(pattern::text(")"));
  return pattern::sequence(std::move(parts));
}

}  // namespace

expected<byte_pattern> schedule_pattern(const task& t, const lowering_target& target) {
  const auto values = values_of(t, target);
  std::vector<pattern> moves;
  for (const auto& [name, seen] : values)
    if (const auto* kind = find_move(name))
      if (auto made = move_pattern(*kind, seen)) moves.push_back(std::move(*made));
  if (moves.empty())
    return fail(errc::unsupported, "task {} has no move on {}: use llm.form=program", t.name, target.name());
  const auto one = pattern::choice(std::move(moves));
  return pattern::sequence({one, pattern::repeated(pattern::sequence({pattern::one_of({"; ", ";\n"}), one}))});
}

}  // namespace cudal1
