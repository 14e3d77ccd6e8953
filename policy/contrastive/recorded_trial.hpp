// Searches of recorded tasks: a policy proposes candidates, and their recorded scores are drawn anew.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "policy/codegen/lowering_target.hpp"
#include "policy/contrastive/candidate_estimates.hpp"
#include "policy/contrastive/candidate_writer.hpp"
#include "policy/contrastive/recorded_space.hpp"

namespace cudal1 {

// A recorded task with what a trial needs of it. Its address must not change: the words refer to the candidates.
struct trial_task {
  // errc::parse_error where its text or a schedule cannot be read. `words` must outlive it.
  static expected<std::shared_ptr<const trial_task>> make(const recorded_task& t, const recorded_header& head,
                                                          const vocabulary& words);
  trial_task(task t, const candidate_set& all, const vocabulary& words)
      : what(std::move(t)), candidates(all), text(candidates, words) {}

  std::string operators;
  environment where;  // that measured it
  task what;
  candidate_set candidates;
  answer_words text;
  candidate_estimates estimates;
  token_sequence problem;
  std::vector<recorded_candidate> records;  // by candidate
  double best = 0;                          // highest recorded score
};

// How a trial chooses the exemplars of a request.
struct exemplar_choice {
  std::size_t most = 4;
  double temperature = 1;
  // More than 1: requests take turns on islands, each of which sees only what was measured for it. After every
  // `island_reset` evaluations the worse half of them are left with the best candidate of the others.
  std::size_t islands = 1, island_reset = 16;
  // Of estimates in the prior; 0: they are not used.
  double estimate_weight = 0;
};

// One search of a recorded task. A score that is asked for again is the one that was drawn first.
class recorded_trial {
 public:
  recorded_trial(std::shared_ptr<const trial_task> of, uint64_t seed, const exemplar_choice& how);
  const trial_task& of() const { return *of_; }
  std::size_t evaluations() const { return measured_.size(); }
  const std::vector<measured_candidate>& measured() const { return measured_; }
  // Candidates that were not measured yet.
  const candidate_bits& open() const { return open_; }
  std::vector<std::size_t> open_candidates() const;  // ascending
  // Measures it for the last request's island, if it was not measured before.
  const measured_candidate& measure(std::size_t candidate);
  // What measure() would say.
  double score_of(std::size_t candidate);
  // The highest recorded score of what was measured, after each evaluation: what a search ends with that measures its
  // best few again, as cudal1 does. At least 1, since the reference is always there.
  const std::vector<double>& best_so_far() const { return best_so_far_; }
  // What is measured next is of the next island.
  void next_island() { island_ = (island_ + 1) % islands_.size(); }
  contrastive_request next_request();
  // By estimates and, where prompts have exemplars, by what was measured on the island.
  candidate_prior prior() const;
  uint64_t& random() { return random_; }

  // Everything but the task and the choice of exemplars.
  json state() const;
  expected<void> set_state(const json& state);

 private:
  void add(std::size_t candidate, double drawn);
  void reset_islands();
  std::vector<measured_candidate> seen() const;  // on the last request's island

  std::shared_ptr<const trial_task> of_;
  exemplar_choice how_;
  uint64_t random_;
  candidate_bits open_;
  std::vector<measured_candidate> measured_;
  std::vector<std::vector<std::size_t>> islands_;  // places in measured_
  std::size_t island_ = 0;                         // of the last request
  std::vector<double> best_so_far_;
};

}  // namespace cudal1
