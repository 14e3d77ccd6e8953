#include "policy/search/doubtful_moves.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include "policy/moves/move_kind.hpp"
#include "policy/moves/move_registry.hpp"
#include "sandbox/program/operators/convolution_chain.hpp"

namespace cudal1 {

namespace {

constexpr int k_wrong_answers = 3;

// The name, and how exact it is where the move says so.
std::string name_of(const move& m) {
  const std::string* const factors = find_parameter(m, "factors");
  return factors == nullptr ? m.name : m.name + " " + *factors;
}

bool is_of_phase(const move& m, move_phase phase) {
  const move_kind* kind = find_move(m.name);
  return kind != nullptr && kind->phase == phase;
}

// other_arithmetic: moves after which a library or tensor cores compute what the task's program computes otherwise.
enum class suspects { all, other_arithmetic };

std::set<std::string> names_in(const schedule& s, suspects which) {
  std::set<std::string> out;
  for (const auto& m : s.moves)
    if (which == suspects::all || is_of_phase(m, move_phase::preparation) || is_of_phase(m, move_phase::implementation))
      out.insert(name_of(m));
  return out;
}

bool has_float32_convolutions(const schedule& s) {
  return std::ranges::any_of(s.moves, [](const move& m) { return m.name == "float32_convolutions"; });
}

// The moves that choose an engine, each behind those of preparation.
std::vector<std::string> engines_in(const schedule& s) {
  schedule preparation;
  std::ranges::copy_if(s.moves, std::back_inserter(preparation.moves),
                       [](const move& m) { return is_of_phase(m, move_phase::preparation); });
  std::vector<std::string> out;
  for (const auto& m : s.moves) {
    if (m.name != "convolution_graph") continue;
    schedule one = preparation;
    one.moves.push_back(m);
    out.push_back(print_schedule(one));
  }
  return out;
}

}  // namespace

// A failed variant with one move that could be at fault says which it is.
void doubtful_moves::note_missing_engines(const prompt& p) {
  std::set<std::string> there;
  for (const auto& e : p.exemplars)
    if (e.plan)
      for (auto& each : engines_in(*e.plan))
        there.insert(std::move(each));
  for (const auto& e : p.failed) {
    if (!e.plan || e.result() != outcome::invalid || e.known.result.reason.find(no_engine_words) == std::string::npos)
      continue;
    auto asked = engines_in(*e.plan);
    std::erase_if(asked, [&](const auto& each) { return there.contains(each); });
    if (asked.size() == 1) without_engine_.insert(std::move(asked[0]));
  }
}

doubtful_moves::doubtful_moves(const prompt& p) {
  note_missing_engines(p);
  const auto is_correct = [](const exemplar& e) { return e.plan && e.result() == outcome::correct; };
  const auto which = std::ranges::any_of(p.exemplars, is_correct) ? suspects::all : suspects::other_arithmetic;
  std::map<std::pair<bool, std::string>, int> wrong;
  for (const auto& e : p.failed)
    if (e.plan && e.result() == outcome::wrong_answer)
      for (const auto& name : names_in(*e.plan, which))
        ++wrong[{has_float32_convolutions(*e.plan), name}];
  for (const auto& e : p.exemplars)
    if (is_correct(e))
      for (const auto& name : names_in(*e.plan, which))
        wrong.erase({has_float32_convolutions(*e.plan), name});
  for (const auto& [of, count] : wrong)
    if (count >= k_wrong_answers) names_[of.first].insert(of.second);
}

bool doubtful_moves::any_in(const schedule& s) const {
  if (const auto found = names_.find(has_float32_convolutions(s)); found != names_.end())
    if (std::ranges::any_of(s.moves, [&](const move& m) { return found->second.contains(name_of(m)); })) return true;
  return !without_engine_.empty() &&
         std::ranges::any_of(engines_in(s), [&](const auto& each) { return without_engine_.contains(each); });
}

}  // namespace cudal1
