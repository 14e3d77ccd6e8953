// The dialect's functions for tensor cores and asynchronous copies against plain loops.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sandbox/cpu/compiler/harness.hpp"
#include "tests/sandbox/tensor_core_kernels.hpp"

namespace cudal1::test {
namespace {

using testing::Each;
using testing::HasSubstr;

kernels& all() {
  static kernels k(tensor_core_kernels);
  return k;
}

float value_of_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return bits >> 15 != 0 ? -size : size;
}
float value_of_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
std::vector<float> values(const std::vector<uint16_t>& bits, float (*value)(uint16_t)) {
  std::vector<float> x;
  for (const uint16_t b : bits)
    x.push_back(value(b));
  return x;
}

// Of magnitudes from 1/4 to 4 as float16.
std::vector<uint16_t> random_halves(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint16_t> x(n);
  for (auto& v : x)
    v = static_cast<uint16_t>((random() & 0x8fffu) + 0x3400u);
  return x;
}

std::vector<float> random_floats(std::size_t n, unsigned seed, float low = -2, float high = 2) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(low, high);
  std::vector<float> x(n);
  for (auto& v : x)
    v = draw(random);
  return x;
}

float truncated(float v) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(v) & 0xffffe000u);
}
// To 10 bits of the fraction, a tie away from zero.
float rounded(float v) {
  const float down = truncated(v), up = std::bit_cast<float>(std::bit_cast<uint32_t>(down) + 0x2000u);
  return std::abs(up) - std::abs(v) <= std::abs(v) - std::abs(down) ? up : down;
}

// c + a b of 16 rows and 8 columns, in the order of k; `b` is k x 8.
std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, std::vector<float> c) {
  const std::size_t depth = b.size() / 8;
  for (std::size_t i = 0; i < c.size(); ++i)
    for (std::size_t k = 0; k < depth; ++k)
      c[i] += a[i / 8 * depth + k] * b[k * 8 + i % 8];
  return c;
}

TEST(TensorCores, FloatsAreRoundedToTf32) {
  std::vector<float> x = random_floats(1000, 1);
  for (uint32_t bits = 0x3f800000u; bits < 0x3f808000u; bits += 0x800u)
    x.insert(x.end(), {std::bit_cast<float>(bits), -std::bit_cast<float>(bits), std::bit_cast<float>(bits - 1)});
  std::vector<uint32_t> y(x.size());
  all().launch("round_to_tf32", {16, 1, 1}, {128, 1, 1}, x.data(), y.data(), static_cast<int>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(std::bit_cast<float>(y[i]), rounded(x[i])) << x[i];
  all().launch("round_to_even_tf32", {16, 1, 1}, {128, 1, 1}, x.data(), y.data(), static_cast<int>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(x[i]);
    const bool is_even_tie = (bits & 0x3fffu) == 0x1000u;
    ASSERT_EQ(std::bit_cast<float>(y[i]), is_even_tie ? truncated(x[i]) : rounded(x[i])) << x[i];
  }
  const float inf = std::numeric_limits<float>::infinity();
  x = {inf, -inf, NAN, -NAN, std::numeric_limits<float>::max(), 0.f, -0.f};
  all().launch("round_to_tf32", {1, 1, 1}, {32, 1, 1}, x.data(), y.data(), 7);
  y.resize(7);
  EXPECT_EQ(y,
            (std::vector<uint32_t>{0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00000u, 0x7f800000u, 0, 0x80000000u}));
  EXPECT_FALSE(all().uses_fibers("round_to_tf32")) << "a loop over threads vectorises";
}

TEST(TensorCores, MultiplyTf32AndIgnoreTheBitsThatItLacks) {
  const auto a = random_floats(16 * 8, 2), b = random_floats(8 * 8, 3), c = random_floats(16 * 8, 4);
  auto ta = a, tb = b;
  for (auto* x : {&ta, &tb})
    for (auto& v : *x)
      v = truncated(v);
  std::vector<float> y(c.size());
  all().launch("product_tf32", {1, 1, 1}, {32, 1, 1}, a.data(), b.data(), c.data(), y.data());
  EXPECT_EQ(y, product(ta, tb, c));
  EXPECT_NE(y, product(a, b, c));
  EXPECT_TRUE(all().uses_fibers("product_tf32"));
}

TEST(TensorCores, MultiplyHalfTypes) {
  auto a = random_halves(16 * 16, 5);
  const auto b = random_halves(16 * 8, 6);
  const auto c = random_floats(16 * 8, 7);
  a[0] = 1;  // the smallest subnormal number, and the largest number
  a[17] = 0x7bff;
  std::vector<float> y(c.size()), z(c.size());
  all().launch("products_of_half_types", {1, 1, 1}, {32, 1, 1}, a.data(), b.data(), c.data(), y.data(), z.data());
  EXPECT_EQ(y, product(values(a, value_of_half), values(b, value_of_half), c));
  EXPECT_EQ(z, product(values(a, value_of_bfloat16), values(b, value_of_bfloat16), c));
  std::fill(y.begin(), y.end(), 0.f);
  all().launch("product_from_shared", {1, 1, 1}, {32, 1, 1}, a.data(), b.data(), y.data());
  EXPECT_EQ(y, product(values(a, value_of_half), values(b, value_of_half), std::vector<float>(c.size())));
}

TEST(TensorCores, LoadMatricesFromSharedMemory) {
  std::vector<uint16_t> x(256);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<uint16_t>(i);
  std::vector<uint32_t> y(32 * 12);
  all().launch("loads", {1, 1, 1}, {32, 1, 1}, x.data(), y.data());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t r = lane / 4, c = lane % 4 * 2;
    for (uint32_t m = 0; m < 4; ++m) {
      const uint32_t plain = (m * 64 + r * 8 + c) | (m * 64 + r * 8 + c + 1) << 16;
      const uint32_t transposed = (m * 64 + c * 8 + r) | (m * 64 + (c + 1) * 8 + r) << 16;
      const auto* words = y.data() + std::size_t{12} * lane;
      EXPECT_EQ(words[m], plain);
      EXPECT_EQ(words[4 + m], transposed);
      if (m >= 2) continue;
      EXPECT_EQ(words[8 + m], plain);
      EXPECT_EQ(words[10 + m], transposed);
    }
  }
}

TEST(AsynchronousCopies, BringWordsOrZeros) {
  std::vector<uint32_t> x(4 * 20), y(224), wanted;  // `x` ends where the last real copy does
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = 1000 + static_cast<uint32_t>(i);
  for (const std::size_t words : {1, 2, 4})
    for (std::size_t i = 32 * words; i-- > 0;)
      wanted.push_back(i < 20 * words ? x[i] : 0);
  all().launch("copies", {1, 1, 1}, {32, 1, 1}, x.data(), y.data(), 20);
  EXPECT_EQ(y, wanted);
}

// Like a copy that takes its time: the poison of shared memory stands there until it is waited for.
TEST(AsynchronousCopies, AreThereOnlyWhenTheyAreWaitedFor) {
  kernels k(R"(
    __global__ void unwaited(const unsigned* x, unsigned* y) {
      __shared__ unsigned s[32];
      copy_async<4>(s + threadIdx.x, x + threadIdx.x, true);
      copy_async_commit();
      copy_async_wait<1>();
      __syncthreads();
      y[threadIdx.x] = s[threadIdx.x];
    }
    __global__ void uncommitted(const unsigned* x, unsigned* y) {
      __shared__ unsigned s[32];
      copy_async<4>(s + threadIdx.x, x + threadIdx.x, true);
      copy_async_wait<0>();
      __syncthreads();
      y[threadIdx.x] = s[threadIdx.x];
    }
    __global__ void over_what_is_read(const unsigned* x, unsigned* y) {
      __shared__ unsigned s[32];
      s[threadIdx.x] = 5;
      __syncthreads();
      copy_async<4>(s + threadIdx.x, x + threadIdx.x, true);
      y[threadIdx.x] = s[threadIdx.x];
      copy_async_commit();
      copy_async_wait<0>();
    })");
  const std::vector<uint32_t> x(32, 7);
  for (const char* name : {"unwaited", "uncommitted", "over_what_is_read"}) {
    std::vector<uint32_t> y(32);
    k.launch(name, {1, 1, 1}, {32, 1, 1}, x.data(), y.data());
    EXPECT_THAT(y, Each(0xffffffffu)) << name;
  }
}

// In a[i][k] * b[j][k], for the pipelined product.
std::vector<float> product_of_rows(const std::vector<float>& a, const std::vector<float>& b, float (*operand)(float)) {
  const std::size_t k = a.size() / 32;
  std::vector<float> y(std::size_t{32} * 32);
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = 0; j < k; ++j)
      y[i] += operand(a[i / 32 * k + j]) * operand(b[i % 32 * k + j]);
  return y;
}

double relative_error(const std::vector<float>& y, const std::vector<float>& a, const std::vector<float>& b) {
  const std::size_t k = a.size() / 32;
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    double exact = 0;
    for (std::size_t j = 0; j < k; ++j)
      exact += static_cast<double>(a[i / 32 * k + j]) * static_cast<double>(b[i % 32 * k + j]);
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - exact) / exact);
  }
  return worst;
}

TEST(TensorCores, APipelinedProductEqualsPlainLoopsAndShowsAForgottenRounding) {
  for (const std::size_t k : {8, 16, 32, 88}) {
    const auto a = random_floats(32 * k, 8, 1, 2), b = random_floats(32 * k, 9, 1, 2);
    std::vector<float> y(std::size_t{32} * 32), z(y);
    all().launch("pipeline", {1, 1, 1}, {128, 1, 1}, a.data(), b.data(), y.data(), static_cast<int>(k));
    EXPECT_EQ(y, product_of_rows(a, b, rounded)) << k;
    all().launch("pipeline_unrounded", {1, 1, 1}, {128, 1, 1}, a.data(), b.data(), z.data(), static_cast<int>(k));
    EXPECT_EQ(z, product_of_rows(a, b, truncated)) << k;
    EXPECT_LT(2 * relative_error(y, a, b), relative_error(z, a, b)) << k;
  }
}

TEST(Warpgroups, MultiplyRowsFromSharedMemory) {
  kernels k(warpgroup_kernels);
  for (const std::size_t n : {64, 128, 192, 256})
    for (const auto& [type, value_of, is_transposed] : {std::tuple{"half", &value_of_half, false},
                                                        {"bfloat16", &value_of_bfloat16, false},
                                                        {"half_transposed", &value_of_half, true},
                                                        {"bfloat16_transposed", &value_of_bfloat16, true}}) {
      const auto a = random_halves(128 * 64, 10), b = random_halves(n * 64, 11);
      const auto c = random_floats(128 * n, 12);
      std::vector<float> y(128 * n), z(y), expected(c), without(y);
      const std::string kernel = "product_" + std::to_string(n) + "k16_" + type;
      k.launch_shared(kernel, {1, 1, 1}, {256, 1, 1}, static_cast<int64_t>((128 + n) * 128), 1, a.data(), b.data(),
                      c.data(), y.data(), z.data());
      for (std::size_t i = 0; i < y.size(); ++i)
        for (std::size_t j = 0; j < 64; ++j) {
          const float both = value_of(a[i / n * 64 + j]) * value_of(b[is_transposed ? j * n + i % n : i % n * 64 + j]);
          expected[i] += both;
          without[i] += both;
        }
      EXPECT_EQ(y, expected) << kernel;
      EXPECT_EQ(z, without) << kernel;
    }
}

TEST(Warpgroups, MultiplyQuadsInTf32) {
  kernels k(quad_kernels);
  for (const std::size_t n : {16, 32, 64}) {
    const auto a = random_floats(136 * 16, 13), b = random_floats(n * 16, 14), c = random_floats(128 * n, 15);
    std::vector<float> y(128 * n), expected(c);
    k.launch_shared("quads_" + std::to_string(n), {1, 1, 1}, {256, 1, 1}, static_cast<int64_t>((136 + n) * 64), 1,
                    a.data(), b.data(), c.data(), y.data());
    for (std::size_t i = 0; i < y.size(); ++i)
      for (std::size_t j = 0; j < 16; ++j)
        expected[i] += truncated(a[(i / n + 3) * 16 + j]) * truncated(b[i % n * 16 + j]);
    EXPECT_EQ(y, expected) << n;
  }
}

// A product reads its operands, and its sums change, when it is waited for.
TEST(Warpgroups, AreThereOnlyWhenTheyAreWaitedFor) {
  kernels k(R"(
    __global__ void early(float* y, int waits) {
      extern __shared__ __align__(1024) unsigned short tiles[];
      for (int i = threadIdx.x; i < 128 * 64; i += 128) tiles[i] = half_of_float(1.0f);
      __syncthreads();
      float d[8][4] = {};
      warpgroup_fence();
      warpgroup_mma_m64n64k16_half(d, tiles, tiles + 64 * 64, true);
      warpgroup_commit();
      if (waits > 0) warpgroup_wait<0>();
      y[threadIdx.x] = d[0][0];
      __syncthreads();
      for (int i = threadIdx.x; i < 128 * 64; i += 128) tiles[i] = half_of_float(2.0f);
      __syncthreads();
      warpgroup_wait<0>();
      y[128 + threadIdx.x] = d[7][3];
    })");
  for (const int waits : {0, 1}) {
    std::vector<float> y(256);
    k.launch_shared("early", {1, 1, 1}, {128, 1, 1}, 16 << 10, 1, y.data(), waits);
    EXPECT_EQ(y.front(), waits > 0 ? 16 : 0);
    EXPECT_EQ(y.back() == 16, waits > 0) << y.back();
  }
}

TEST(WarpgroupsDeath, MisuseIsAFault) {
  kernels k(R"(
    __global__ void from(const unsigned short* x, int offset) {
      extern __shared__ __align__(1024) unsigned short tiles[];
      float d[8][4] = {};
      warpgroup_mma_m64n64k16_half(d, offset < 0 ? x : tiles + offset, tiles, true);
    }
    __global__ void from_columns(int offset) {
      extern __shared__ __align__(1024) unsigned short tiles[];
      float d[16][4] = {};
      warpgroup_mma_m64n128k16_half_transposed(d, tiles, tiles + offset, true);
    }
    __global__ void from_quads(int offset, int step) {
      extern __shared__ __align__(16) float quads[];
      float d[2][4] = {};
      warpgroup_mma_m64n16k8_quads(d, quads + offset, step, 128, quads, 256);
    })");
  const auto run_quads = [&](int offset, int step) {
    k.launch_shared("from_quads", {1, 1, 1}, {128, 1, 1}, 2 << 10, 1, offset, step);
  };
  run_quads(0, 1024);
  EXPECT_DEATH(run_quads(1, 1024), "a place or step of a is not at a multiple of 16 bytes");
  EXPECT_DEATH(run_quads(0, 1028), "a place or step of a is not at a multiple of 16 bytes");
  EXPECT_DEATH(run_quads(4, 1024), "the 64 rows of a are not in shared memory");
  alignas(1024) static const std::array<unsigned short, 64 * 64> x{};
  const auto run = [&](int offset) { k.launch_shared("from", {1, 1, 1}, {128, 1, 1}, 8 << 10, 1, x.data(), offset); };
  EXPECT_DEATH(run(8), "a is 16 bytes from a multiple of 1024");
  EXPECT_DEATH(run(512), "the 64 rows of a are not in shared memory");
  EXPECT_DEATH(run(-1), "the 64 rows of a are not in shared memory");
  const auto run_columns = [&](int offset) {
    k.launch_shared("from_columns", {1, 1, 1}, {128, 1, 1}, 10 << 10, 1, offset);
  };
  run_columns(0);  // the second strip's 16 rows end with the shared memory
  EXPECT_DEATH(run_columns(16), "b is 32 bytes from a multiple of 1024");
  EXPECT_DEATH(run_columns(512), "the 16 rows of b's 128 columns are not in shared memory");
}

TEST(TensorCoresDeath, MisuseIsAFault) {
  kernels k(R"(
    __global__ void part_of_a_warp(float* y) {
      float d[4] = {}; unsigned a[4] = {}, b[2] = {};
      mma_m16n8k8_tf32(d, a, b);
      y[threadIdx.x] = d[0];
    }
    __global__ void odd_row(float* y) {
      __shared__ __align__(16) float s[132];
      unsigned r[4];
      load_matrix_x4(r, s + 4 * threadIdx.x + 1);
      y[threadIdx.x] = __uint_as_float(r[0]);
    }
    __global__ void row_in_global_memory(float* y) {
      unsigned r[2];
      load_matrix_x2(r, y);
      y[threadIdx.x] = __uint_as_float(r[0]);
    }
    __global__ void odd_source(float* y) {
      __shared__ __align__(16) float s[4];
      copy_async<16>(s, y + 1, true);
    }
    __global__ void to_global_memory(float* y) { copy_async<4>(y, y + 1, true); })");
  std::vector<float> y(64);
  const auto run = [&](const char* name, int64_t threads) { k.launch(name, {1, 1, 1}, {threads, 1, 1}, y.data()); };
  EXPECT_DEATH(run("part_of_a_warp", 16), "only the lanes 0xffff: all 32 must take part");
  EXPECT_DEATH(run("odd_row", 32), "row is no multiple of 16");
  EXPECT_DEATH(run("row_in_global_memory", 32), "not in shared memory");
  EXPECT_DEATH(run("odd_source", 1), "no multiple of 16");
  EXPECT_DEATH(run("to_global_memory", 1), "not in shared memory");
}

TEST(TensorCores, TheirFunctionsCannotBeRedefined) {
  for (const char* source :
       {"__device__ void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {}",
        "__device__ void copy_async_commit() {}"})
    EXPECT_THAT(compile_error(source + std::string("\n__global__ void k(float* y) { y[0] = 1; }")).message,
                HasSubstr("is a function of the dialect"));
  EXPECT_THAT(compile_error("__device__ unsigned tf32_of_float(float v) { return 0; }\n"
                            "__global__ void k(float* y) { y[0] = 1; }")
                  .message,
              HasSubstr("tf32_of_float"));
  EXPECT_THAT(
      compile_error("__global__ void k(float* y) { __shared__ float s[4]; copy_async<12>(s, y, true); }").message,
      HasSubstr("copies 4, 8 or 16 bytes"));
}

}  // namespace
}  // namespace cudal1::test
