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
// Candidates that are tried to find which moves are legal second, and which further on; steps of the graphs that are
// copied for that.
constexpr std::size_t most_second = 3000, most_further = 3000, most_copied = 200'000;

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

// A move that is legal where it stands, as a schedule of it alone is written.
struct legal_move {
  std::string text;
  move_phase phase = move_phase::always;
  graph after;
  std::size_t launches = 0;  // steps and groups that are left
  std::vector<legal_move> next = {};
};

// `tried` counts the candidates.
std::vector<legal_move> legal_on(const graph& g, const lowering_target& target, std::size_t& tried) {
  std::vector<legal_move> out;
  std::set<std::string> seen;
  for (const auto phase : move_phases)
    for (const auto* kind : moves_of(phase))
      for (const auto& m : kind->candidates(g, target)) {
        legal_move next{print_schedule({{m}}), phase, g};
        if (!seen.insert(next.text).second) continue;
        ++tried;
        if (!apply_move(next.after, m, target)) continue;
        const auto order = next.after.order();
        if (!order) continue;
        next.launches = order->size();
        out.push_back(std::move(next));
      }
  return out;
}

// Which moves are legal after each other. All that may come second, unless these are too many; then those after the
// moves that leave the fewest launches, in the order of phases, as far as there is time.
struct legal_moves {
  std::vector<legal_move> first = {};
  bool has_second = false;
};

legal_moves explore(const task& t, const lowering_target& target) {
  legal_moves out;
  std::size_t tried = 0;
  out.first = legal_on(graph(t), target, tried);
  const std::size_t cost = tried * out.first.size();
  if (cost > most_second || cost * t.reference.text.steps.size() > most_copied) return out;
  out.has_second = true;
  // By launches, then in the order in which they were found.
  std::map<std::pair<std::size_t, std::size_t>, legal_move*> open;
  std::size_t found = 0;
  const auto expand = [&](legal_move& m) {
    m.next = legal_on(m.after, target, tried);
    for (auto& next : m.next) {
      if (next.phase >= m.phase) open.emplace(std::pair(next.launches, ++found), &next);
    }
  };
  for (auto& m : out.first)
    expand(m);
  tried = 0;
  while (!open.empty() && tried < most_further) {
    auto* m = open.begin()->second;
    open.erase(open.begin());
    expand(*m);
  }
  return out;
}

pattern separator() {
  return pattern::one_of({"; ", ";\n"});
}

pattern of_moves(const std::vector<legal_move>& moves) {
  std::vector<pattern> options;
  for (const auto& m : moves) {
    const auto one = pattern::text(m.text);
    options.push_back(
        m.next.empty()
            ? one
            : pattern::sequence(
                  {one, pattern::choice({pattern::text(""), pattern::sequence({separator(), of_moves(m.next)})})}));
  }
  return pattern::choice(std::move(options));
}

}  // namespace

expected<byte_pattern> schedule_pattern(const task& t, const lowering_target& target) {
  const auto legal = explore(t, target);
  if (legal.first.empty())
    return fail(errc::unsupported, "task {} has no move on {}: use llm.form=program", t.name, target.name());
  if (legal.has_second) return of_moves(legal.first);
  std::vector<pattern> further;
  for (const auto& [name, seen] : values_of(t, target))
    if (const auto* kind = find_move(name))
      if (auto made = move_pattern(*kind, seen)) further.push_back(std::move(*made));
  if (further.empty()) return of_moves(legal.first);
  return pattern::sequence({of_moves(legal.first),
                            pattern::repeated(pattern::sequence({separator(), pattern::choice(std::move(further))}))});
}

}  // namespace cudal1
