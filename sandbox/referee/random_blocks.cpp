// Compiled with -O3 and without contraction to fused multiply-add (CMakeLists.txt): all target clones round alike.
#include "sandbox/referee/random_blocks.hpp"

#include <cmath>
#include <numbers>

#include "config/base/split_mix.hpp"

namespace cudal1 {
namespace {

#if defined(__x86_64__)
#define CUDAL1_CLONES [[gnu::target_clones("arch=haswell", "default")]]
#else
#define CUDAL1_CLONES
#endif

// The helpers are always_inline: otherwise GCC does not inline them into functions of another target.

[[gnu::always_inline]] inline double unit(uint64_t bits) {  // [0, 1), 52 bits
  return __builtin_bit_cast(double, 0x3ff0000000000000 | (bits >> 12)) - 1.0;
}

// -log(x), x in (0, 1], normal: x = 2^k m, m in [sqrt(1/2), sqrt(2)), log m by the series of the inverse hyperbolic
// tangent. Error below 1e-13.
[[gnu::always_inline]] inline double minus_log(double x) {
  constexpr uint64_t root_half = 0x3fe6a09e667f3bcd, bias = 2048;
  const auto bits = __builtin_bit_cast(uint64_t, x);
  const uint64_t k = (bits - root_half + (bias << 52)) >> 52 & 0xfff;
  const double exponent = __builtin_bit_cast(double, 0x4330000000000000 | k) - (0x1p52 + 2048.0);
  const double m = __builtin_bit_cast(double, bits - (k << 52) + (bias << 52));
  const double z = (m - 1) / (m + 1), w = z * z;
  const double series =
      1 + w * (1.0 / 3 + w * (1.0 / 5 + w * (1.0 / 7 + w * (1.0 / 9 + w * (1.0 / 11 + w * (1.0 / 13 + w / 15))))));
  return -(exponent * std::numbers::ln2 + 2 * z * series);
}

[[gnu::always_inline]] inline double small_sine(double x, double w) {  // |x| <= pi / 4, w = x * x
  return x * (1 + w * (-1.0 / 6 + w * (1.0 / 120 + w * (-1.0 / 5040 + w * (1.0 / 362880 + w * (-1.0 / 39916800))))));
}
[[gnu::always_inline]] inline double small_cosine(double w) {
  return 1 + w * (-1.0 / 2 + w * (1.0 / 24 + w * (-1.0 / 720 + w * (1.0 / 40320 + w * (-1.0 / 3628800)))));
}

CUDAL1_CLONES void fill_bits(uint64_t state, uint64_t* bits, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    bits[i] = split_mix(state + (i + 1) * split_mix_step);
}

CUDAL1_CLONES void fill_uniforms(const uint64_t* bits, double* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    values[i] = unit(bits[i]);
}

CUDAL1_CLONES void fill_exponentials(const uint64_t* bits, double* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    values[i] = minus_log(unit(bits[i]) + 0x1p-53);
}

// Two normals of each pair of words: a radius, and an angle in a quarter of the circle, rotated by two further bits.
CUDAL1_CLONES void fill_normals(const uint64_t* radii, const uint64_t* angles, double* first, double* second,
                                std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const double radius = std::sqrt(2 * minus_log(unit(radii[i]) + 0x1p-53));
    const double x = (unit(angles[i]) - 0.5) * (std::numbers::pi / 2), w = x * x;
    const double s = small_sine(x, w), c = small_cosine(w);
    const double signed_radius =
        __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, radius) | (angles[i] & 1) << 63);
    const uint64_t swapped = 0 - (angles[i] >> 1 & 1),
                   both = __builtin_bit_cast(uint64_t, s) ^ __builtin_bit_cast(uint64_t, c);
    first[i] = signed_radius * __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, c) ^ (both & swapped));
    second[i] = signed_radius * __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, s) ^ (both & swapped));
  }
}

CUDAL1_CLONES void fill_small_exponentials(double* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const double x = values[i];
    values[i] =
        1 +
        x * (1 + x * (1.0 / 2 +
                      x * (1.0 / 6 +
                           x * (1.0 / 24 +
                                x * (1.0 / 120 +
                                     x * (1.0 / 720 + x * (1.0 / 5040 + x * (1.0 / 40320 + x * (1.0 / 362880)))))))));
  }
}

}  // namespace

uint64_t random_blocks::operator()() {
  return split_mix(state_ += split_mix_step);
}

double random_blocks::normal() {
  double values[2];
  normals(values);
  return values[0];
}

int64_t random_blocks::below(int64_t bound) {
  return bound > 0 ? static_cast<int64_t>((*this)() % static_cast<uint64_t>(bound)) : 0;
}

void random_blocks::uniforms(std::span<double> values) {
  uint64_t bits[block];
  fill_bits(state_, bits, values.size());
  state_ += split_mix_step * values.size();
  fill_uniforms(bits, values.data(), values.size());
}

void random_blocks::exponentials(std::span<double> values) {
  uint64_t bits[block];
  fill_bits(state_, bits, values.size());
  state_ += split_mix_step * values.size();
  fill_exponentials(bits, values.data(), values.size());
}

void random_blocks::normals(std::span<double> values) {
  uint64_t bits[block];
  double pairs[block];
  const std::size_t half = (values.size() + 1) / 2;
  fill_bits(state_, bits, 2 * half);
  state_ += split_mix_step * 2 * half;
  fill_normals(bits, bits + half, pairs, pairs + half, half);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = pairs[i];
}

void small_exponentials(std::span<double> values) {
  fill_small_exponentials(values.data(), values.size());
}

}  // namespace cudal1
