#include "policy/contrastive/candidate_prior.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace cudal1 {

candidate_prior::candidate_prior(std::vector<float> logits) : logits_(std::move(logits)), order_(logits_.size()) {
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::stable_sort(order_, std::greater<>(), [&](std::size_t c) { return logits_[c]; });
}

std::size_t candidate_prior::best_candidate_of(const candidate_bits& some) const {
  return *std::ranges::find_if(order_, [&](std::size_t c) { return some.test(c); });
}

float candidate_prior::best_of(const candidate_bits& some) const {
  return logits_[best_candidate_of(some)];
}

}  // namespace cudal1
