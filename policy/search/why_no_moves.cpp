#include "policy/search/why_no_moves.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policy/body/body_builder.hpp"
#include "policy/moves/move_registry.hpp"
#include "policy/search/schedule_space.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t most_reasons = 3;
constexpr std::size_t few_schedules = 4;

// Without the names of values and shapes, which differ between steps.
std::string kind_of(const std::string& reason) {
  return reason.substr(0, reason.find(" ("));
}

}  // namespace

std::string why_no_moves(const task& t, const lowering_target& target) {
  const auto moves = legal_moves(t, {}, target);
  if (!moves) return moves.error().message;
  const auto only_runs_it_otherwise = [](const move& m) { return find_move(m.name)->phase == move_phase::execution; };
  if (!std::all_of(moves->begin(), moves->end(), only_runs_it_otherwise)) return "";
  const graph g(t);
  std::map<std::string, int> counts;
  for (int n = 0; g.has_step(n); ++n)
    if (const auto body = build_body(g, {n}); !body) ++counts[kind_of(body.error().message)];
  std::vector<std::pair<int, std::string>> reasons;
  for (const auto& [reason, count] : counts)
    reasons.emplace_back(count, reason);
  std::ranges::stable_sort(reasons, std::greater{}, &std::pair<int, std::string>::first);
  std::set<std::string> others;
  for (const auto& m : *moves)
    others.insert(m.name);
  std::string text =
      others.empty() ? "no move applies" : fmt::format("no move but {} applies", fmt::join(others, ", "));
  for (std::size_t i = 0; i < reasons.size() && i < most_reasons; ++i)
    text += fmt::format("{}{} ({} step{})", i == 0 ? ": " : ", ", reasons[i].second, reasons[i].first,
                        reasons[i].first == 1 ? "" : "s");
  if (reasons.size() > most_reasons) text += ", ...";
  return text;
}

std::string what_little_to_search(const task& t, const lowering_target& target) {
  const std::string why = why_no_moves(t, target);
  if (why.starts_with("no move applies")) return why + ": a search cannot improve it";
  if (!why.empty()) return why + ": a search can only run the same steps otherwise";
  if (t.reference.calls.size() > most_steps_of_a_space) return "";
  const schedule_space all = space_of(t, target, few_schedules + 1);
  if (!all.is_complete || all.schedules.size() < 2) return "";
  std::vector<std::string> others;
  for (std::size_t i = 1; i < all.schedules.size(); ++i)
    others.push_back(print_schedule(all.schedules[i]));
  return fmt::format("a search ends when it has tried {}, since no other schedule gives another program",
                     fmt::join(others, " / "));
}

}  // namespace cudal1
