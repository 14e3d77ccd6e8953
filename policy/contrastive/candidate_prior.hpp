// What is known of a task's candidates without the model, as logits: the model adds its own, and so learns what they do
// not say.
#pragma once

#include <cstddef>
#include <vector>

#include "policy/contrastive/candidate_set.hpp"

namespace cudal1 {

class candidate_prior {
 public:
  candidate_prior() = default;                          // nothing is known
  explicit candidate_prior(std::vector<float> logits);  // of each candidate

  bool empty() const { return logits_.empty(); }
  float of(std::size_t candidate) const { return logits_.empty() ? 0 : logits_[candidate]; }
  // Of the best candidate among `some`, of which there is at least one.
  float best_of(const candidate_bits& some) const;
  std::size_t best_candidate_of(const candidate_bits& some) const;

 private:
  std::vector<float> logits_;
  std::vector<std::size_t> order_;  // the best first
};

}  // namespace cudal1
