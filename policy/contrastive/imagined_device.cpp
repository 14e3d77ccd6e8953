#include "policy/contrastive/imagined_device.hpp"

#include <cmath>

#include "config/base/split_mix.hpp"

namespace cudal1 {

namespace {

// Standard deviations of logarithms. On an H100 the best candidates of two implementations of a task are about that far
// apart, and those of two values of one decision.
constexpr double of_implementations = 0.5, of_decisions = 0.2;

double uniform(uint64_t& random) {  // in (0, 1)
  return (static_cast<double>(split_mix(random += split_mix_step) >> 11) + 0.5) * 0x1p-53;
}

double normal(uint64_t& random) {
  const double radius = std::sqrt(-2 * std::log(uniform(random)));
  return radius * std::cos(2 * M_PI * uniform(random));
}

}  // namespace

imagined_device::imagined_device(const candidate_set& all, uint64_t seed) : seed_(seed) {
  if (seed == 0) return;
  uint64_t random = split_mix(seed);
  share_ = uniform(random);
  std::vector<double> implementations, decisions;
  for (std::size_t i = 0; i < all.implementations().size(); ++i)
    implementations.push_back(of_implementations * normal(random));
  for (std::size_t d = 0; d < all.decisions().size(); ++d)
    decisions.push_back(of_decisions * normal(random));
  for (std::size_t c = 0; c < all.size(); ++c) {
    double moved = implementations[all.implementation_of(c)];
    for (const std::size_t d : all.decisions_of(c))
      moved += decisions[d];
    moved_.push_back(moved);
  }
}

double imagined_device::score(std::size_t candidate, double measured) const {
  if (!is_imagined() || measured <= 0) return measured;
  return std::exp(share_ * std::log(measured) + moved_[candidate]);
}

}  // namespace cudal1
