// Elements of half types to doubles and back, against the compiler's own conversions.
#include "sandbox/referee/elements.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

__extension__ typedef _Float16 compilers_half;

TEST(elements, every_float16_is_read_as_the_compiler_reads_it) {
  std::vector<uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<uint16_t>(i);
  std::vector<double> read(all.size());
  load_elements(dtype::float16, reinterpret_cast<const std::byte*>(all.data()), 0, 1 << 16, read.data());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto wanted = static_cast<double>(std::bit_cast<compilers_half>(all[i]));
    ASSERT_TRUE(read[i] == wanted || (std::isnan(read[i]) && std::isnan(wanted))) << i;
    ASSERT_EQ(std::signbit(read[i]), std::signbit(wanted)) << i;
  }
}

TEST(elements, numbers_are_stored_in_float16_as_the_compiler_stores_them) {
  std::vector<double> values{0.0,       -0.0,    0x1p-24,     0x1p-25, 0x1.000002p-25,
                             0x1.8p-24, 0x1p-14, 0x1.ffcp-15, 65504,   -65504};
  std::mt19937_64 random(5);
  for (int exponent = -28; exponent < 16; ++exponent)
    for (int i = 0; i < 2000; ++i) {
      const double fraction = 1 + static_cast<double>(random() >> 11) * 0x1p-53;
      // Halfway between two numbers of the type, too.
      const double near = i % 4 == 0 ? std::floor(fraction * 2048) / 2048 : fraction;
      values.push_back((i % 2 == 0 ? 1 : -1) * std::ldexp(near, exponent));
    }
  std::vector<uint16_t> stored(values.size());
  store_elements(dtype::float16, reinterpret_cast<std::byte*>(stored.data()), 0, static_cast<int64_t>(values.size()),
                 values.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto finite = static_cast<float>(std::clamp(values[i], -65504.0, 65504.0));
    ASSERT_EQ(stored[i], std::bit_cast<uint16_t>(static_cast<compilers_half>(finite))) << values[i];
  }
}

TEST(elements, what_float16_cannot_hold_is_its_largest_number_and_nan_stays) {
  const std::vector<double> values{1e6, -1e6, std::numeric_limits<double>::infinity(), std::nan("")};
  std::vector<uint16_t> stored(4);
  store_elements(dtype::float16, reinterpret_cast<std::byte*>(stored.data()), 0, 4, values.data());
  EXPECT_EQ(stored[0], 0x7bff);
  EXPECT_EQ(stored[1], 0xfbff);
  EXPECT_EQ(stored[2], 0x7bff);
  EXPECT_GT(stored[3] & 0x7fff, 0x7c00);
}

}  // namespace
}  // namespace cudal1
