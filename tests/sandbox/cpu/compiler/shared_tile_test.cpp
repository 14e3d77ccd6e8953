// Tiles of shared memory and rows of blocks against plain loops.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sandbox/program/types.hpp"
#include "tests/sandbox/cpu/compiler/harness.hpp"
#include "tests/sandbox/shared_tile_kernels.hpp"

namespace cudal1::test {
namespace {

constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

std::size_t at(int64_t i) {
  return static_cast<std::size_t>(i);
}

// A bfloat16's values are exact in all types that products take, so that each is right but for the sums' rounding.
std::vector<float> short_numbers(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> x(at(n));
  for (auto& v : x)
    v = std::ldexp(static_cast<float>(static_cast<int>(random() % 255) - 127), -6);
  return x;
}

uint16_t half_of(float v) {
  if (v == 0) return 0;
  int exponent = 0;
  const float fraction = std::frexp(std::abs(v), &exponent);  // from 1/2 to 1
  return static_cast<uint16_t>((v < 0 ? 0x8000 : 0) | ((exponent + 14) << 10) |
                               (static_cast<int>(std::ldexp(fraction, 11)) & 1023));
}
uint16_t bfloat16_of(float v) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16);
}

double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 != 0 ? -size : size;
}

std::vector<float> turned(const std::vector<float>& x, int64_t rows, int64_t columns) {
  std::vector<float> y(x.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      y[at(c * rows + r)] = x[at(r * columns + c)];
  return y;
}

TEST(SharedTiles, MultiplyByEveryInstructionInEveryOrder) {
  std::string source;
  for (const auto& p : tile_products())
    source += tile_product_kernel(p);
  kernels k(source);
  const auto a = short_numbers(tile_rows * tile_terms, 1), b = short_numbers(tile_terms * tile_columns, 2);
  for (const auto& p : tile_products()) {
    SCOPED_TRACE(p.kernel());
    const auto left = p.left_by_terms() ? turned(a, tile_rows, tile_terms) : a;
    const auto right = p.right_by_columns() ? turned(b, tile_terms, tile_columns) : b;
    std::vector<float> y(at(tile_rows * tile_columns), no_number);
    const auto run = [&](const auto* x, const auto* w) {
      k.launch_shared(p.kernel(), tile_grid, tile_block, tile_shared_bytes, 1, x, w, y.data());
    };
    if (p.is_half()) {
      std::vector<uint16_t> x(left.size()), w(right.size());
      const auto bits = std::string(p.mma) == "mma_half" ? half_of : bfloat16_of;
      std::ranges::transform(left, x.begin(), bits);
      std::ranges::transform(right, w.begin(), bits);
      run(x.data(), w.data());
    } else {
      run(left.data(), right.data());
    }
    for (int64_t r = 0; r < tile_rows; ++r)
      for (int64_t c = 0; c < tile_columns; ++c) {
        double wanted = 0;
        for (int64_t t = 0; t < tile_terms; ++t)
          wanted += static_cast<double>(a[at(r * tile_terms + t)]) * b[at(t * tile_columns + c)];
        ASSERT_NEAR(y[at(r * tile_columns + c)], wanted, 1e-4) << r << " " << c;
      }
  }
}

TEST(SharedTiles, MultiplyByWarpgroups) {
  kernels k(warpgroup_tile_kernel("mma_half") + warpgroup_tile_kernel("mma_bfloat16"));
  const auto a = short_numbers(tile_rows * tile_terms, 7), b = short_numbers(tile_columns * tile_terms, 8);
  for (const char* mma : {"mma_half", "mma_bfloat16"}) {
    std::vector<uint16_t> x(a.size()), w(b.size());
    const auto bits = std::string(mma) == "mma_half" ? half_of : bfloat16_of;
    std::ranges::transform(a, x.begin(), bits);
    std::ranges::transform(b, w.begin(), bits);
    std::vector<float> y(at(tile_rows * tile_columns), no_number);
    k.launch_shared(std::string(mma) + "_by_warpgroups", {1, 1, 1}, {256, 1, 1}, warpgroup_shared_bytes, 1, x.data(),
                    w.data(), y.data());
    for (int64_t r = 0; r < tile_rows; ++r)
      for (int64_t c = 0; c < tile_columns; ++c) {
        double wanted = 0;
        for (int64_t t = 0; t < tile_terms; ++t)
          wanted += static_cast<double>(a[at(r * tile_terms + t)]) * b[at(c * tile_terms + t)];
        ASSERT_NEAR(y[at(r * tile_columns + c)], wanted, 1e-4) << mma << " " << r << " " << c;
      }
  }
}

TEST(SharedTiles, OfUnevenSizesAreCopiedMultipliedReducedAndStored) {
  kernels k(uneven_tile_kernel);
  auto a = short_numbers(48 * 40, 9);
  const auto b = short_numbers(40 * 24, 10);
  for (const bool with_nan : {false, true}) {
    if (with_nan) a[at(7 * 40 + 3)] = std::bit_cast<float>(0x7fffffffU);  // whose low bits a rounding may carry away
    std::vector<float> y(48 * 24), of_rows(96);
    std::vector<uint16_t> z(48 * 24);
    k.launch("uneven", {1, 1, 1}, {96, 1, 1}, a.data(), b.data(), y.data(), z.data(), of_rows.data());
    for (int64_t r = 0; r < 48; ++r) {
      const bool is_nan = with_nan && r == 7;
      double sum = 0, greatest = -1e9;
      for (int64_t c = 0; c < 24; ++c) {
        double wanted = 0;
        for (int64_t t = 0; t < 40; ++t)
          wanted += static_cast<double>(a[at(r * 40 + t)]) * b[at(t * 24 + c)];
        sum += wanted;
        greatest = std::max(greatest, wanted);
        ASSERT_EQ(std::isnan(y[at(r * 24 + c)]), is_nan) << r << " " << c;
        if (is_nan) continue;
        ASSERT_NEAR(y[at(r * 24 + c)], wanted, 1e-4) << r << " " << c;
        ASSERT_NEAR(half_value(z[at(r * 24 + c)]), wanted, 0.02) << r << " " << c;
      }
      ASSERT_EQ(std::isnan(of_rows[at(r)]), is_nan);
      ASSERT_EQ(std::isnan(of_rows[at(48 + r)]), is_nan);
      if (is_nan) continue;
      EXPECT_NEAR(of_rows[at(r)], sum, 1e-3) << r;
      EXPECT_NEAR(of_rows[at(48 + r)], greatest, 1e-4) << r;
    }
  }
  const auto left = short_numbers(48 * 48, 11), right = short_numbers(24 * 48, 12);
  std::vector<uint16_t> x(left.size()), w(right.size());
  std::ranges::transform(left, x.begin(), bfloat16_of);
  std::ranges::transform(right, w.begin(), bfloat16_of);
  std::vector<float> y(48 * 24);
  k.launch("uneven_halves", {1, 1, 1}, {96, 1, 1}, x.data(), w.data(), y.data());
  for (int64_t r = 0; r < 48; ++r)
    for (int64_t c = 0; c < 24; ++c) {
      double wanted = 0;
      for (int64_t t = 0; t < 48; ++t)
        wanted += static_cast<double>(left[at(r * 48 + t)]) * right[at(c * 48 + t)];
      ASSERT_NEAR(y[at(r * 24 + c)], wanted, 1e-4) << r << " " << c;
    }
}

// A program's kernels may have the names of members of the dialect's types, but not those of its functions.
TEST(SharedTiles, LeaveOtherNamesToThePrograms) {
  kernels k(R"(
    __global__ void columns(int* y) { y[threadIdx.x] = shared_tile<float, 8, 8>::at(1, threadIdx.x); }
    __device__ int row() { return threadIdx.x; }
    __global__ void rows(int* y) { y[row()] = row(); }
  )");
  std::vector<int> y(8);
  k.launch("columns", {1, 1, 1}, {8, 1, 1}, y.data());
  EXPECT_EQ(y, (std::vector<int>{8, 9, 10, 11, 12, 13, 14, 15}));
  const auto refused = compile_error(
      "__device__ float sum_of_warp(float v) { return v; }\n__global__ void k(float* y) { y[0] = sum_of_warp(1.0f); }");
  EXPECT_NE(refused.message.find("\"sum_of_warp\" is a function of the dialect; use another name"), std::string::npos)
      << refused.message;
}

// Numbers of 24 bits: their high and low parts are products of their own.
TEST(SharedTiles, MultiplyPartsOfTf32NearlyAsFloat32) {
  const tile_product p{"mma_tf32x3", "multiply_ab"};
  const tile_product one{"mma_tf32", "multiply_ab"};
  kernels k(tile_product_kernel(p) + tile_product_kernel(one));
  std::mt19937 random(3);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> a(at(tile_rows * tile_terms)), b(at(tile_terms * tile_columns));
  for (auto* x : {&a, &b})
    for (auto& v : *x)
      v = draw(random);
  for (const auto& each : {p, one}) {
    std::vector<float> y(at(tile_rows * tile_columns), no_number);
    k.launch_shared(each.kernel(), tile_grid, tile_block, tile_shared_bytes, 1, a.data(), b.data(), y.data());
    double worst = 0;
    for (int64_t r = 0; r < tile_rows; ++r)
      for (int64_t c = 0; c < tile_columns; ++c) {
        double wanted = 0;
        for (int64_t t = 0; t < tile_terms; ++t)
          wanted += static_cast<double>(a[at(r * tile_terms + t)]) * b[at(t * tile_columns + c)];
        worst = std::max(worst, std::abs(y[at(r * tile_columns + c)] - wanted));
      }
    const bool in_parts = std::string(each.mma) == "mma_tf32x3";
    EXPECT_TRUE(in_parts ? worst < 5e-6 : worst > 5e-4) << each.mma << ": off by " << worst;
  }
}

// What tensor cores' loads and warpgroups expect: eight rows of a piece of 16 bytes are in different banks, and the
// pieces of a line of 128 bytes of a half type are in the places that warpgroup_mma_* reads.
TEST(SharedTiles, ArePutWithoutBankConflicts) {
  kernels k(R"(
    template <class TILE>
    __device__ void places(int* y) {
      for (int r = 0; r < TILE::rows; ++r)
        for (int c = 0; c < TILE::columns; ++c) y[r * TILE::columns + c] = TILE::at(r, c);
    }
    __global__ void float_16(int* y) { places<shared_tile<float, 32, 16>>(y); }
    __global__ void float_32(int* y) { places<shared_tile<float, 32, 32>>(y); }
    __global__ void float_48(int* y) { places<shared_tile<float, 32, 48>>(y); }
    __global__ void half_32(int* y) { places<shared_tile<unsigned short, 32, 32>>(y); }
    __global__ void half_64(int* y) { places<shared_tile<unsigned short, 32, 64>>(y); }
  )");
  for (const auto& [name, columns, bytes] : {std::tuple<const char*, int64_t, int64_t>{"float_16", 16, 4},
                                             {"float_32", 32, 4},
                                             {"float_48", 48, 4},
                                             {"half_32", 32, 2},
                                             {"half_64", 64, 2}}) {
    SCOPED_TRACE(name);
    std::vector<int> y(at(32 * columns));
    k.launch(name, {1, 1, 1}, {1, 1, 1}, y.data());
    auto sorted = y;
    std::ranges::sort(sorted);
    for (int64_t i = 0; i < 32 * columns; ++i)
      ASSERT_EQ(sorted[at(i)], i);
    const auto bank = [&, columns = columns, bytes = bytes](int64_t row, int64_t column) {
      return y[at(row * columns + column)] * bytes / 16 % 8;
    };
    const int64_t width = 16 / bytes;
    for (int64_t row = 0; row < 32; row += 8)
      for (int64_t column = 0; column < columns; column += width) {
        unsigned seen = 0;
        for (int64_t r = 0; r < 8; ++r)
          seen |= 1U << bank(row + r, column);
        EXPECT_EQ(seen, 0xffU) << row << " " << column;
      }
    for (int64_t row = 0; bytes == 4 && row < 32; row += 4)  // a lane's element of each of four rows, eight columns
      for (int64_t column = 0; column < columns; column += 8) {
        unsigned seen = 0;
        for (int64_t r = 0; r < 4; ++r)
          seen |= 1U << bank(row + r, column) | 1U << bank(row + r, column + 4);
        EXPECT_EQ(seen, 0xffU) << row << " " << column;
      }
    for (int64_t row = 0; columns * bytes == 128 && bytes == 2 && row < 32; ++row)
      for (int64_t column = 0; column < columns; ++column)
        EXPECT_EQ(y[at(row * columns + column)], row * 64 + (column / 8 ^ row % 8) * 8 + column % 8);
  }
}

TEST(RowsOfBlocks, AreLoadedReducedAndStored) {
  kernels k(R"(
    __global__ void rows(const float* x, float* y, float* greatest, int columns) {
      __shared__ float scratch[2];
      float v[12];
      load_row_of_block<64>(v, x, columns, -INFINITY);
      float top = v[0], sum = 0.0f;
      for (float e : v) top = greater_or_nan(top, e);
      greatest[threadIdx.x] = greatest_of_block<64>(top, scratch);
      for (float e : v) sum += e == -INFINITY ? 0.0f : e;
      greatest[64 + threadIdx.x] = sum_of_block<64>(sum, scratch);
      store_row_of_block<64>(y, v, columns);
    }
    __global__ void halves(const unsigned short* x, unsigned short* y, int columns) {
      float v[12];
      load_half_row_of_block<64>(v, x, columns, 0.0f);
      for (float& e : v) e *= 2.0f;
      store_half_row_of_block<64>(y, v, columns);
    }
    __global__ void bfloats(const unsigned short* x, unsigned short* y, int columns) {
      float v[12];
      load_bfloat16_row_of_block<64>(v, x, columns, 0.0f);
      for (float& e : v) e *= 2.0f;
      store_bfloat16_row_of_block<64>(y, v, columns);
    }
  )");
  for (const int columns : {4, 256, 500, 768}) {
    for (const bool with_nan : {false, true}) {
      auto x = short_numbers(columns, 5);
      if (with_nan) x[at(columns / 3)] = no_number;
      std::vector<float> y(x.size() + 4, 7.0f), found(128);
      k.launch("rows", {1, 1, 1}, {64, 1, 1}, x.data(), y.data(), found.data(), columns);
      double sum = 0;
      for (const float v : x)
        sum += v;
      for (std::size_t i = 0; i < 64; ++i) {
        EXPECT_EQ(std::isnan(found[i]), with_nan);
        EXPECT_EQ(std::isnan(found[64 + i]), with_nan);
        if (with_nan) continue;
        EXPECT_EQ(found[i], *std::ranges::max_element(x));
        EXPECT_NEAR(found[64 + i], sum, 1e-3);
      }
      for (std::size_t i = 0; i < y.size(); ++i)
        EXPECT_TRUE(with_nan || y[i] == (i < x.size() ? x[i] : 7.0f)) << i;
    }
    const auto x = short_numbers(columns, 6);
    for (const bool bfloat : {false, true}) {
      const auto bits = bfloat ? bfloat16_of : half_of;
      std::vector<uint16_t> from(x.size()), to(x.size() + 4, 7);
      std::ranges::transform(x, from.begin(), bits);
      k.launch(bfloat ? "bfloats" : "halves", {1, 1, 1}, {64, 1, 1}, from.data(), to.data(), columns);
      for (std::size_t i = 0; i < to.size(); ++i)
        EXPECT_EQ(to[i], i < x.size() ? bits(2 * x[i]) : 7) << i;
    }
  }
}

}  // namespace
}  // namespace cudal1::test
