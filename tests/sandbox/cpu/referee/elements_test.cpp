// Elements of float16 to doubles and back, against its definition (IEEE 754's binary16).
#include "sandbox/referee/elements.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

constexpr unsigned infinite = 0x7c00;

double defined(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31U), fraction = static_cast<int>(bits & 1023U);
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

// The nearest finite number, of two that are as near the one with an even last bit.
unsigned nearest(double value) {
  const double size = std::abs(value);
  unsigned below = 0;
  for (unsigned step = 1U << 14; step > 0; step /= 2)  // the largest that is not above it
    if (below + step < infinite && defined(below + step) <= size) below += step;
  const unsigned above = std::min(below + 1, infinite - 1);
  const double down = size - defined(below), up = defined(above) - size;
  const unsigned found = down < up || (down == up && below % 2 == 0) ? below : above;
  return found | (std::signbit(value) ? 0x8000U : 0U);
}

std::vector<uint16_t> stored(const std::vector<double>& values) {
  std::vector<uint16_t> out(values.size());
  store_elements(dtype::float16, reinterpret_cast<std::byte*>(out.data()), 0, static_cast<int64_t>(values.size()),
                 values.data());
  return out;
}

TEST(half_elements, every_float16_is_read_as_it_is_defined) {
  std::vector<uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<uint16_t>(i);
  std::vector<double> read(all.size());
  load_elements(dtype::float16, reinterpret_cast<const std::byte*>(all.data()), 0, 1 << 16, read.data());
  for (unsigned i = 0; i < all.size(); ++i) {
    const double wanted = defined(i);
    ASSERT_TRUE(read[i] == wanted || (std::isnan(read[i]) && std::isnan(wanted))) << i;
    ASSERT_TRUE(std::isnan(wanted) || std::signbit(read[i]) == std::signbit(wanted)) << i;
  }
}

TEST(half_elements, floats_are_stored_as_the_nearest_float16) {
  std::vector<double> values{0.0,       -0.0,    0x1p-24,     0x1p-25, 0x1.000002p-25,
                             0x1.8p-24, 0x1p-14, 0x1.ffcp-15, 65504,   -65504};
  std::mt19937_64 random(5);
  for (int exponent = -28; exponent < 15; ++exponent)
    for (int i = 0; i < 2000; ++i) {
      const double fraction = 1 + static_cast<double>(random() >> 41) * 0x1p-23;
      // Halfway between two numbers of the type, too.
      const double near = i % 4 == 0 ? std::floor(fraction * 2048) / 2048 : fraction;
      values.push_back((i % 2 == 0 ? 1 : -1) * std::ldexp(near, exponent));
    }
  const auto found = stored(values);
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(found[i], nearest(values[i])) << values[i];
}

TEST(half_elements, what_float16_cannot_hold_is_its_largest_number_and_nan_stays) {
  const auto found = stored({1e6, -1e6, std::numeric_limits<double>::infinity(), std::nan("")});
  EXPECT_EQ(found[0], 0x7bff);
  EXPECT_EQ(found[1], 0xfbff);
  EXPECT_EQ(found[2], 0x7bff);
  EXPECT_GT(found[3] & 0x7fff, infinite);
}

}  // namespace
}  // namespace cudal1
