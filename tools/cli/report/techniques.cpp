#include "tools/cli/report/techniques.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "policy/graph/schedule.hpp"
#include "policy/moves/move_registry.hpp"

namespace cudal1::cli {

namespace {

std::string words_of(move_phase phase) {
  switch (phase) {
    case move_phase::preparation:
      return "layout and rewritten layers";
    case move_phase::always:
      return "algebra with proofs";
    case move_phase::grouping:
      return "operator fusion";
    case move_phase::implementation:
      return "other implementations";
    case move_phase::tuning:
      return "tiles, blocks and unrolling";
    case move_phase::execution:
      return "launches and CUDA graphs";
  }
  return "other";
}

struct gathered {
  technique row;
  std::vector<double> scores;  // of correct variants
  double logarithms = 0;       // of the best variants' scores
};

void count(gathered& g, const tried_variant& v) {
  ++g.row.variants;
  if (v.result != outcome::correct) return;
  ++g.row.correct;
  if (v.score > 0) g.scores.push_back(v.score);
  if (!v.is_best || !(v.score > 0)) return;
  ++g.row.best_of;
  g.logarithms += std::log(v.score);
}

technique finished(gathered g) {
  if (g.row.best_of > 0) g.row.geometric_mean = std::exp(g.logarithms / static_cast<double>(g.row.best_of));
  std::sort(g.scores.begin(), g.scores.end());
  if (!g.scores.empty()) g.row.median = g.scores[g.scores.size() / 2];
  return g.row;
}

bool is_before(const technique& a, const technique& b) {
  return std::tuple(-a.best_of, -a.variants, a.family, a.move) < std::tuple(-b.best_of, -b.variants, b.family, b.move);
}

}  // namespace

std::string family_of_move(const std::string& move) {
  const auto* kind = find_move(move);
  return kind == nullptr ? "other" : words_of(kind->phase);
}

std::vector<technique> techniques_of(const std::vector<tried_variant>& variants) {
  std::map<std::string, gathered> families;
  std::map<std::pair<std::string, std::string>, gathered> moves;
  for (const auto& v : variants) {
    const auto parsed = parse_schedule(v.schedule);
    if (v.schedule.empty() || !parsed) continue;
    std::set<std::pair<std::string, std::string>> used;
    std::set<std::string> used_families;
    for (const auto& m : parsed->moves) {
      const auto family = family_of_move(m.name);
      used.emplace(family, m.name);
      used_families.insert(family);
    }
    for (const auto& key : used)
      count(moves[key], v);
    for (const auto& family : used_families)
      count(families[family], v);
  }
  std::vector<technique> heads, rows, all;
  for (auto& [family, g] : families) {
    g.row.family = family;
    heads.push_back(finished(std::move(g)));
  }
  for (auto& [key, g] : moves) {
    std::tie(g.row.family, g.row.move) = key;
    rows.push_back(finished(std::move(g)));
  }
  std::ranges::sort(heads, is_before);
  std::ranges::sort(rows, is_before);
  for (const auto& head : heads) {
    all.push_back(head);
    for (const auto& row : rows)
      if (row.family == head.family) all.push_back(row);
  }
  return all;
}

}  // namespace cudal1::cli
