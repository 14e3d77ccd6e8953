// The candidates of a small task: the schedules of its closed space, each as a choice of implementation and decisions
// that tune it. What a contrastive policy chooses among.
#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <vector>

#include "policy/graph/schedule.hpp"

namespace cudal1 {

inline constexpr std::size_t most_candidates = 256;
using candidate_bits = std::bitset<most_candidates>;

// A value that is chosen for a kernel, or the implementation as a whole.
struct tuning_decision {
  std::vector<std::string> name;   // "block", or "<group>", "1", "block"
  std::vector<std::string> words;  // the name, then the value
  std::size_t name_id = 0;         // of decisions with this name, one is chosen at most
};

class candidate_set {
 public:
  // Schedules of different programs with the programs' ids, at most `most_candidates`; the rest, empty schedules, and
  // what has the same words as an earlier one are left out.
  candidate_set(const std::vector<schedule>& schedules, const std::vector<std::string>& programs);

  std::size_t size() const { return schedules_.size(); }
  const schedule& plan(std::size_t candidate) const { return schedules_[candidate]; }
  const std::string& program(std::size_t candidate) const { return programs_[candidate]; }
  std::size_t implementation_of(std::size_t candidate) const { return implementation_of_[candidate]; }
  const std::vector<std::size_t>& decisions_of(std::size_t candidate) const { return decisions_of_[candidate]; }

  // Words of each implementation, and the candidates that have it.
  const std::vector<std::vector<std::string>>& implementations() const { return implementations_; }
  const candidate_bits& with_implementation(std::size_t i) const { return with_implementation_[i]; }
  const std::vector<tuning_decision>& decisions() const { return decisions_; }
  const candidate_bits& with_decision(std::size_t d) const { return with_decision_[d]; }
  const std::vector<std::vector<std::string>>& names() const { return names_; }
  // The candidates in which something of that name is decided.
  const candidate_bits& with_name(std::size_t n) const { return with_name_[n]; }
  const candidate_bits& with_decisions(std::size_t count) const { return with_count_[count]; }
  // Place of a program's candidate; size() where there is none.
  std::size_t find(const std::string& program) const;

 private:
  std::vector<schedule> schedules_;
  std::vector<std::string> programs_;
  std::vector<std::size_t> implementation_of_;
  std::vector<std::vector<std::size_t>> decisions_of_;  // ascending
  std::vector<std::vector<std::string>> implementations_, names_;
  std::vector<tuning_decision> decisions_;
  std::vector<candidate_bits> with_implementation_, with_decision_, with_name_, with_count_;
};

}  // namespace cudal1
