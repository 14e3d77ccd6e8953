#include "policy/search/random_source.hpp"

#include "config/base/split_mix.hpp"

namespace cudal1 {

uint64_t random_source::next() {
  return split_mix(state_ += split_mix_step);
}

double random_source::unit() {
  return static_cast<double>(next() >> 11) * 0x1p-53;
}

std::size_t random_source::below(std::size_t n) {
  return n == 0 ? 0 : static_cast<std::size_t>(next() % n);
}

}  // namespace cudal1
