#include "policy/search/doubtful_moves.hpp"

#include <algorithm>
#include <map>

namespace cudal1 {

namespace {

constexpr int k_wrong_answers = 3;

std::set<std::string> names_in(const schedule& s) {
  std::set<std::string> out;
  for (const auto& m : s.moves)
    out.insert(m.name);
  return out;
}

}  // namespace

doubtful_moves::doubtful_moves(const prompt& p) {
  const auto is_correct = [](const exemplar& e) { return e.plan && e.result() == outcome::correct; };
  if (std::ranges::none_of(p.exemplars, is_correct)) return;
  std::map<std::string, int> wrong;
  for (const auto& e : p.failed)
    if (e.plan && e.result() == outcome::wrong_answer)
      for (const auto& name : names_in(*e.plan))
        ++wrong[name];
  for (const auto& e : p.exemplars)
    if (is_correct(e))
      for (const auto& name : names_in(*e.plan))
        wrong.erase(name);
  for (const auto& [name, count] : wrong)
    if (count >= k_wrong_answers) names_.insert(name);
}

bool doubtful_moves::any_in(const schedule& s) const {
  return std::ranges::any_of(s.moves, [&](const move& m) { return names_.contains(m.name); });
}

}  // namespace cudal1
