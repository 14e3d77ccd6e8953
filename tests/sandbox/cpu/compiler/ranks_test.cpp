// Ranks of elements, and what a warp keeps of them: against a sort on the host.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sandbox/cpu/compiler/harness.hpp"

namespace cudal1::test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();

// What is greater than all else, in turn: NaN, then numbers; of equal ones the first.
std::vector<int64_t> places_in_order(const std::vector<float>& x, bool greatest) {
  std::vector<int64_t> places(x.size());
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, [&](int64_t a, int64_t b) {
    const float u = x[static_cast<std::size_t>(greatest ? a : b)], v = x[static_cast<std::size_t>(greatest ? b : a)];
    return std::isnan(u) ? !std::isnan(v) : u > v;
  });
  return places;
}

TEST(Ranks, OrderNumbersZerosInfinitiesAndNaN) {
  const std::vector<float> x = {0.0f,   -0.0f, 1.0f, -1.0f, nan,     infinity, -infinity,
                                1e-45f, -nan,  3.5f, 1.0f,  -1e-45f, 0.0f};
  const auto count = static_cast<int>(x.size());
  kernels k(R"(
    __global__ void k(const float* x, int n, long long* y, float* z) {
      const int i = threadIdx.x;
      const long long up = i < n ? rank_of_greater(x[i], i) : no_rank();
      const long long down = i < n ? rank_of_smaller(x[i], i) : no_rank();
      const long long a = sort_ranks(up), b = sort_ranks(down);
      if (i < n) {
        y[i] = place_of_rank(a);
        y[32 + i] = place_of_rank(b);
        z[i] = element_of_rank<true>(a);
        z[32 + i] = element_of_rank<false>(b);
      }
    })");
  EXPECT_TRUE(k.uses_fibers("k"));
  std::vector<int64_t> y(64);
  std::vector<float> z(64);
  k.launch("k", {1, 1, 1}, {32, 1, 1}, x.data(), count, y.data(), z.data());
  for (const bool greatest : {true, false}) {
    const auto wanted = places_in_order(x, greatest);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t at = i + (greatest ? 0 : 32);
      const float element = x[static_cast<std::size_t>(wanted[i])];
      EXPECT_EQ(y[at], wanted[i]) << greatest << " " << i;
      EXPECT_TRUE(z[at] == element || (std::isnan(z[at]) && std::isnan(element))) << z[at] << " " << element;
    }
  }
}

// Rows of three warps, with few distinct numbers, so that many are equal.
TEST(Ranks, AreKeptOfRowsWithEqualElements) {
  kernels k(R"(
    template <bool GREATER>
    __device__ void keep(const float* x, long long* y, int columns, int k) {
      __shared__ long long waiting[4][64], found[4 * 64];
      const int warp = threadIdx.x / 32;
      long long kept[2] = {no_rank(), no_rank()}, limit = no_rank();
      int count = 0;
      for (int first = 2 * threadIdx.x; first < (columns + 511) / 512 * 512 + 2 * threadIdx.x; first += 512) {
        float v[4] = {};
        for (int i = 0; i < 4; ++i) {
          const int at = first + i / 2 * 256 + i % 2;
          if (at < columns) v[i] = x[at];
        }
        keep_ranks<GREATER, 2>(kept, limit, waiting[warp], count, v, first, 256, columns, k);
      }
      merge_waiting_ranks(kept, waiting[warp], count);
      merge_ranks_of_warps(kept, found, 4);
      if (warp == 0)
        for (int q = 0; q < 2; ++q)
          if (q * 32 + threadIdx.x < k) y[q * 32 + threadIdx.x] = place_of_rank(kept[q]);
    }
    __global__ void greatest(const float* x, long long* y, int columns, int k) { keep<true>(x, y, columns, k); }
    __global__ void smallest(const float* x, long long* y, int columns, int k) { keep<false>(x, y, columns, k); }
  )");
  std::mt19937 random(7);
  for (const int columns : {64, 500, 3001})
    for (const int distinct : {1, 7, 100000})
      for (const int count : {33, 50, 64})
        for (const bool greatest : {true, false}) {
          std::vector<float> x(static_cast<std::size_t>(columns));
          const int middle = distinct / 2;
          for (auto& each : x)
            each = static_cast<float>(static_cast<int>(random() % static_cast<unsigned>(distinct)) - middle);
          if (distinct > 1) x[x.size() / 2] = nan;
          std::vector<int64_t> y(64);
          k.launch(greatest ? "greatest" : "smallest", {1, 1, 1}, {128, 1, 1}, x.data(), y.data(), columns, count);
          const auto wanted = places_in_order(x, greatest);
          for (int i = 0; i < count; ++i)
            ASSERT_EQ(y[static_cast<std::size_t>(i)], wanted[static_cast<std::size_t>(i)])
                << columns << " columns, " << distinct << " distinct, " << i << " of " << count << ", " << greatest;
        }
}

}  // namespace
}  // namespace cudal1::test
