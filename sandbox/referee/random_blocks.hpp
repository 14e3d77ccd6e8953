// Random numbers in blocks: SplitMix64 (Steele, Lea, Flood 2014), whose state is a counter, and distributions computed
// from its bits by plain arithmetic. A seed gives the same numbers on every processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace cudal1 {

class random_blocks {
 public:
  static constexpr std::size_t block = 1024;  // the most that one call fills

  explicit random_blocks(uint64_t seed) : state_(seed) {}

  // One number at a time: a generator in the sense of <random>.
  using result_type = uint64_t;
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return std::numeric_limits<uint64_t>::max(); }
  uint64_t operator()();
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }  // [0, 1)
  double normal();
  int64_t below(int64_t bound);

  void uniforms(std::span<double> values);      // [0, 1)
  void exponentials(std::span<double> values);  // -log of a uniform number; never 0
  // N(0,1) by Box and Muller (1958), with tails up to 8.5 standard deviations.
  void normals(std::span<double> values);

 private:
  uint64_t state_;
};

// exp(x) for |x| < 0.5, to 1e-9.
void small_exponentials(std::span<double> values);

}  // namespace cudal1
