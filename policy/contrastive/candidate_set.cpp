#include "policy/contrastive/candidate_set.hpp"

#include <algorithm>
#include <set>

#include "policy/contrastive/vocabulary.hpp"
#include "policy/moves/move_registry.hpp"

namespace cudal1 {

namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// "0..2+5" as 0, .., 2, +, 5.
void append_pieces(const std::string& value, std::vector<std::string>& to) {
  for (std::size_t i = 0; i < value.size();) {
    std::size_t end = i + 1;
    while (end < value.size() && is_word(value[end]) == is_word(value[i]))
      ++end;
    to.push_back(value.substr(i, end - i));
    i = end;
  }
}

tuning_decision decision_of(const move& m) {
  tuning_decision out;
  for (const auto& [key, value] : m.parameters)
    if (key == "group" && value != "0") out.name = {std::string(frame::group), value};
  out.name.push_back(m.name);
  out.words = out.name;
  for (const auto& [key, value] : m.parameters)
    if (key != "group") append_pieces(value, out.words);
  return out;
}

template <class T, class Same>
std::size_t place_of(std::vector<T>& all, T one, Same same) {
  const auto found = std::ranges::find_if(all, [&](const T& each) { return same(each, one); });
  const auto at = static_cast<std::size_t>(found - all.begin());
  if (found == all.end()) all.push_back(std::move(one));
  return at;
}

}  // namespace

candidate_set::candidate_set(const std::vector<schedule>& schedules, const std::vector<std::string>& programs) {
  const auto equal = [](const auto& a, const auto& b) { return a == b; };
  std::set<std::pair<std::size_t, std::vector<std::size_t>>> known;
  for (std::size_t s = 0; s < schedules.size() && schedules_.size() < most_candidates; ++s) {
    if (schedules[s].moves.empty()) continue;
    std::vector<std::string> words;
    std::vector<std::size_t> chosen;
    for (const auto& m : schedules[s].moves) {
      const move_kind* kind = find_move(m.name);
      if (kind == nullptr || kind->phase != move_phase::tuning) {
        words.push_back(m.name);
        for (const auto& parameter : m.parameters)
          append_pieces(parameter.second, words);
        continue;
      }
      tuning_decision d = decision_of(m);
      d.name_id = place_of(names_, d.name, equal);
      chosen.push_back(
          place_of(decisions_, std::move(d), [](const auto& a, const auto& b) { return a.words == b.words; }));
    }
    std::ranges::sort(chosen);
    const std::size_t implementation = place_of(implementations_, std::move(words), equal);
    if (!known.insert({implementation, chosen}).second) continue;
    schedules_.push_back(schedules[s]);
    programs_.push_back(programs[s]);
    implementation_of_.push_back(implementation);
    decisions_of_.push_back(std::move(chosen));
  }
  with_implementation_.resize(implementations_.size());
  with_decision_.resize(decisions_.size());
  with_name_.resize(names_.size());
  for (std::size_t c = 0; c < size(); ++c) {
    with_implementation_[implementation_of_[c]].set(c);
    for (const std::size_t d : decisions_of_[c]) {
      with_decision_[d].set(c);
      with_name_[decisions_[d].name_id].set(c);
    }
    with_count_.resize(std::max(with_count_.size(), decisions_of_[c].size() + 1));
    with_count_[decisions_of_[c].size()].set(c);
  }
}

std::size_t candidate_set::find(const std::string& program) const {
  return static_cast<std::size_t>(std::ranges::find(programs_, program) - programs_.begin());
}

}  // namespace cudal1
