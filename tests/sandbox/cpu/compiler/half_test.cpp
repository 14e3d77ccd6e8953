// The dialect's conversions of half types against the host compiler's own.
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sandbox/cpu/compiler/harness.hpp"

namespace cudal1::test {
namespace {

__extension__ typedef _Float16 half;

kernels& conversions() {
  static kernels all(R"(
    __global__ void widen(const unsigned short* x, float* h, float* b, int n) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) h[i] = float_of_half(x[i]);
      if (i < n) b[i] = float_of_bfloat16(x[i]);
    }
    __global__ void narrow(const float* x, unsigned short* h, unsigned short* b, int n) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) h[i] = half_of_float(x[i]);
      if (i < n) b[i] = bfloat16_of_float(x[i]);
    }
    __global__ void narrow_pairs(const float2* x, unsigned* h, unsigned* b, int n) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) h[i] = half_pair_of_floats(x[i].x, x[i].y);
      if (i < n) b[i] = bfloat16_pair_of_floats(x[i].x, x[i].y);
    })");
  return all;
}

// To nearest even: what is cut off decides, and a tie goes to the even one.
uint16_t as_bfloat16(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  const auto down = static_cast<uint16_t>(bits >> 16);
  const uint32_t cut = bits & 0xffffu;
  return static_cast<uint16_t>(down + (cut > 0x8000u || (cut == 0x8000u && down % 2 == 1) ? 1 : 0));
}

// All values of both types, their neighbours, ties between them, and random bits.
std::vector<float> floats_to_round() {
  std::vector<float> out;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float h = static_cast<float>(std::bit_cast<half>(static_cast<uint16_t>(bits)));
    for (const float v : {h, std::bit_cast<float>(bits << 16), std::bit_cast<float>(bits << 16 | 0x8000u)}) {
      const auto exact = std::bit_cast<uint32_t>(v);
      for (const uint32_t near : {exact, exact + 1, exact - 1, exact + 0x1000u, exact + 0x0fffu, exact + 0x1001u})
        out.push_back(std::bit_cast<float>(near));
    }
  }
  std::mt19937 random(7);
  while (out.size() % 4096 != 0 || out.size() < (1u << 21))
    out.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  return out;
}

TEST(HalfTypes, AllTheirValuesAreWidenedExactly) {
  std::vector<uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<uint16_t>(i);
  std::vector<float> h(all.size()), b(all.size());
  conversions().launch("widen", {256, 1, 1}, {256, 1, 1}, static_cast<const uint16_t*>(all.data()), h.data(), b.data(),
                       65536);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto wanted = static_cast<float>(std::bit_cast<half>(all[i]));
    ASSERT_TRUE(std::isnan(wanted) ? std::isnan(h[i])
                                   : std::bit_cast<uint32_t>(wanted) == std::bit_cast<uint32_t>(h[i]))
        << i << ": " << wanted << " and " << h[i];
    ASSERT_EQ(std::bit_cast<uint32_t>(b[i]), static_cast<uint32_t>(all[i]) << 16);
  }
}

TEST(HalfTypes, FloatsAreRoundedToNearestEven) {
  const auto x = floats_to_round();
  const int n = static_cast<int>(x.size());
  std::vector<uint16_t> h(x.size()), b(x.size());
  std::vector<uint32_t> hh(x.size() / 2), bb(x.size() / 2);
  conversions().launch("narrow", {n / 256, 1, 1}, {256, 1, 1}, x.data(), h.data(), b.data(), n);
  conversions().launch("narrow_pairs", {n / 512, 1, 1}, {256, 1, 1}, x.data(), hh.data(), bb.data(), n / 2);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const uint32_t shift = i % 2 == 0 ? 0 : 16;
    ASSERT_EQ(h[i], static_cast<uint16_t>(hh[i / 2] >> shift)) << x[i];
    ASSERT_EQ(b[i], static_cast<uint16_t>(bb[i / 2] >> shift)) << x[i];
    if (std::isnan(x[i])) {
      ASSERT_TRUE((h[i] & 0x7fff) > 0x7c00 && (b[i] & 0x7fff) > 0x7f80);
      continue;
    }
    ASSERT_EQ(h[i], std::bit_cast<uint16_t>(static_cast<half>(x[i]))) << x[i];
    ASSERT_EQ(b[i], as_bfloat16(x[i])) << x[i];
  }
}

}  // namespace
}  // namespace cudal1::test
