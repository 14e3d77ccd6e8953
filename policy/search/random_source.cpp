#include "policy/search/random_source.hpp"

namespace cudal1 {

// SplitMix64 (Steele, Lea, Flood 2014).
uint64_t random_source::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double random_source::unit() {
  return static_cast<double>(next() >> 11) * 0x1p-53;
}

std::size_t random_source::below(std::size_t n) {
  return n == 0 ? 0 : static_cast<std::size_t>(next() % n);
}

}  // namespace cudal1
