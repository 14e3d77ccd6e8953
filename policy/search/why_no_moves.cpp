#include "policy/search/why_no_moves.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "policy/codegen/body_builder.hpp"
#include "policy/moves/move_registry.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t most_reasons = 3;

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
  std::string text = "no move applies";
  for (std::size_t i = 0; i < reasons.size() && i < most_reasons; ++i)
    text += fmt::format("{}{} ({} step{})", i == 0 ? ": " : ", ", reasons[i].second, reasons[i].first,
                        reasons[i].first == 1 ? "" : "s");
  if (reasons.size() > most_reasons) text += ", ...";
  return text;
}

}  // namespace cudal1
