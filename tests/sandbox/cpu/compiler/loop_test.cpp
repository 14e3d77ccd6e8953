// Loop kernels: indices, guards, integers, and how fast they are.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/cpu/runtime/launch_threads.hpp"
#include "tests/sandbox/cpu/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using shape = std::array<int64_t, 3>;

TEST(LoopKernel, ReluOfMultiplyAddEqualsAPlainLoop) {
  kernels k(R"(
    __global__ void relu(const float* a, const float* b, float* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) { float v = a[i] * b[i] + b[i]; y[i] = v > 0.f ? v : 0.f; }
    })");
  EXPECT_FALSE(k.uses_fibers("relu"));
  for (const int n : {1, 7, 255, 256, 257, 1000, 4096}) {
    std::vector<float> a(static_cast<size_t>(n)), b(a), y(a.size() + 8, -7.f);
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<float>(i % 17) - 8.f;
      b[i] = static_cast<float>(i % 5) - 2.f;
    }
    k.launch("relu", {(n + 255) / 256, 1, 1}, {256, 1, 1}, a.data(), b.data(), y.data(), n);
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_EQ(y[i], std::max(a[i] * b[i] + b[i], 0.f)) << n << " " << i;
    for (size_t i = a.size(); i < y.size(); ++i)
      ASSERT_EQ(y[i], -7.f) << "written beyond the guard";
  }
}

// Every form of the index and of the guard gives the same result, whether the guard is versioned or not.
TEST(LoopKernel, GuardsOfEveryFormHold) {
  const std::string index[] = {
      "int i = blockIdx.x * blockDim.x + threadIdx.x;",
      "const int i = threadIdx.x + blockIdx.x * blockDim.x;",
      "unsigned i = blockDim.x * blockIdx.x + threadIdx.x;",
      "int i = (int)blockIdx.x * (int)blockDim.x + (int)threadIdx.x;",
      "long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;",
      "size_t i = blockIdx.x * blockDim.x + threadIdx.x;",
      "auto i = blockIdx.x * blockDim.x + threadIdx.x;",
      "int i = blockIdx.x * blockDim.x; i += threadIdx.x;",
      "int i = blockIdx.x * blockDim.x + threadIdx.x; i += 0;",
  };
  const std::string guard[] = {
      "if (i < n) y[i] = i * 3;",
      "if (i >= n) return; y[i] = i * 3;",
      "if (n > i) { y[i] = i * 3; }",
      "if (n <= i) return; y[i] = i * 3;",
      "if (i < n && m > 0) y[i] = i * 3;",
      "if (!(i < n)) return; y[i] = i * 3;",
      "if (i < n || m < 0) y[i] = i * 3;",
      "if (i + 1 <= n) y[i] = i * 3;",
      "m = n; if (i < m) y[i] = i * 3;",
      "{ int n = 5; if (i < n) y[i] = -1; } if (i < n) y[i] = i * 3;",
      "for (int i = 0; i < 2; ++i) m += i; int j = i; if (j < n) y[j] = j * 3;",
  };
  int number = 0;
  std::string source;
  std::vector<std::string> names;
  for (const auto& i : index)
    for (const auto& g : guard) {
      names.push_back("k" + std::to_string(number++));
      source += "__global__ void " + names.back() + "(int* y, int n, int m) { " + i + " " + g + " }\n";
    }
  kernels k(source);
  for (const auto& name : names)
    for (const int n : {0, 1, 31, 64, 100, 128}) {
      std::vector<int> y(256, -1);
      k.launch(name, {4, 1, 1}, {32, 1, 1}, y.data(), n, 1);
      for (int i = 0; i < 256; ++i)
        ASSERT_EQ(y[static_cast<size_t>(i)], i < n ? i * 3 : -1) << name << " n " << n << " i " << i << "\n"
                                                                 << source.substr(source.find(name + "("), 160);
    }
}

TEST(LoopKernel, IndicesAreExactOverOddShapesInThreeDimensions) {
  const char* body = R"(
      unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
      unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
      unsigned* r = out + 4 * (b * (blockDim.x * blockDim.y * blockDim.z) + t);
      r[0] += threadIdx.x | threadIdx.y << 10 | threadIdx.z << 20;
      r[1] += blockIdx.x | blockIdx.y << 10 | blockIdx.z << 20;
      r[2] += (threadIdx.x - 1) / 3 + (blockIdx.x * blockDim.x + threadIdx.x) % 7;
      r[3] += blockDim.x * gridDim.x - threadIdx.x - 100;)";
  kernels k(std::string("__global__ void loop(unsigned* out) {") + body +
            "}\n__global__ void fiber(unsigned* out) { __syncthreads();" + body + "}");
  EXPECT_FALSE(k.uses_fibers("loop"));
  EXPECT_TRUE(k.uses_fibers("fiber"));
  const std::pair<shape, shape> shapes[] = {{{1, 1, 1}, {1, 1, 1}},  {{3, 2, 5}, {7, 3, 2}},
                                            {{5, 1, 1}, {33, 1, 1}}, {{2, 3, 1}, {1, 17, 3}},
                                            {{1, 1, 4}, {2, 2, 64}}, {{2, 1, 1}, {1024, 1, 1}}};
  for (const auto& [grid, block] : shapes) {
    const auto threads = static_cast<size_t>(block[0] * block[1] * block[2]);
    const auto blocks = static_cast<size_t>(grid[0] * grid[1] * grid[2]);
    std::vector<unsigned> loop(4 * threads * blocks), fiber(loop), wanted(loop);
    k.launch("loop", grid, block, loop.data());
    k.launch("fiber", grid, block, fiber.data());
    for (unsigned b = 0; b < blocks; ++b)
      for (unsigned t = 0; t < threads; ++t) {
        const auto dx = static_cast<unsigned>(block[0]), dy = static_cast<unsigned>(block[1]);
        const auto gx = static_cast<unsigned>(grid[0]), gy = static_cast<unsigned>(grid[1]);
        const unsigned tx = t % dx, ty = t / dx % dy, tz = t / dx / dy, bx = b % gx, by = b / gx % gy, bz = b / gx / gy;
        unsigned* r = &wanted[4 * (b * threads + t)];
        r[0] = tx | ty << 10 | tz << 20;
        r[1] = bx | by << 10 | bz << 20;
        r[2] = (tx - 1) / 3 + (bx * dx + tx) % 7;
        r[3] = dx * gx - tx - 100;
      }
    EXPECT_EQ(loop, wanted);
    EXPECT_EQ(fiber, wanted);
  }
}

TEST(LoopKernel, BlocksSpreadOverThreadsCoverTheGridOnce) {
  ASSERT_TRUE(prepare_launch_threads(4));
  kernels k(R"(
    __global__ void count(int* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) atomicAdd(&y[i], 1); }
    __global__ void meet(int* y, int n) {
      __shared__ int s[32];
      s[threadIdx.x] = blockIdx.x * 32 + threadIdx.x; __syncthreads();
      int i = s[31 - threadIdx.x]; if (i < n) atomicAdd(&y[i], 1);
    })");
  for (const char* name : {"count", "meet"})
    for (const int blocks : {1, 3, 4, 5, 100}) {
      std::vector<int> y(static_cast<size_t>(blocks) * 32, 0);
      k.launch_shared(name, {blocks, 1, 1}, {32, 1, 1}, 0, 4, y.data(), blocks * 32);
      EXPECT_THAT(y, testing::Each(1)) << name << " " << blocks;
    }
}

TEST(LoopKernel, AtomicsAddUp) {
  kernels k(R"(
    __global__ void all(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
      int t = blockIdx.x * blockDim.x + threadIdx.x;
      atomicAdd(&i[0], t); atomicSub(&i[1], 2); atomicMin(&i[2], -t); atomicMax(&i[3], t);
      atomicAnd(&i[4], ~(1 << (t % 31))); atomicOr(&i[5], 1 << (t % 31)); atomicXor(&i[6], t);
      atomicAdd(&u[0], 3u); atomicInc(&u[1], 9u); atomicDec(&u[2], 9u); atomicMax(&u[3], 0xfffff000u + t);
      atomicAdd(&l[0], 1ull << 33); atomicMax(&l[1], (unsigned long long)t << 40);
      atomicAdd(&f[0], 0.5f); atomicAdd(&d[0], 0.25);
      if (atomicCAS(&i[7], 0, t + 1) == 0) atomicExch(&i[8], 77);
    })");
  std::vector<int> i(9, 0);
  i[4] = -1;
  std::vector<unsigned> u(4, 0);
  std::vector<unsigned long long> l(2, 0);
  float f = 0;
  double d = 0;
  k.launch("all", {4, 1, 1}, {64, 1, 1}, i.data(), u.data(), l.data(), &f, &d);
  int exclusive = 0;
  for (int t = 0; t < 256; ++t)
    exclusive ^= t;
  EXPECT_THAT(
      i, testing::ElementsAre(255 * 128, -512, -255, 255, static_cast<int>(0x80000000u), 0x7fffffff, exclusive, 1, 77));
  EXPECT_THAT(u, testing::ElementsAre(768u, 256u % 10, (10 - 256 % 10) % 10, 0xfffff0ffu));
  EXPECT_THAT(l, testing::ElementsAre(256ull << 33, 255ull << 40));
  EXPECT_EQ(f, 128.f);
  EXPECT_EQ(d, 64.0);
}

TEST(LoopKernel, IntegerIntrinsicsAreExact) {
  kernels k(R"(
    __global__ void bits(unsigned a, unsigned b, int* y) {
      y[0] = __popc(a); y[1] = __clz(a); y[2] = __ffs(a); y[3] = __brev(a); y[4] = __clz(0); y[5] = __ffs(0);
      y[6] = __umulhi(a, b); y[7] = __mulhi((int)a, (int)b); y[8] = __byte_perm(a, b, 0x7531); y[9] = __funnelshift_l(a, b, 5);
      y[10] = __funnelshift_r(a, b, 5); y[11] = min(-3, 4); y[12] = max(2u, 7u); y[13] = abs(-9); y[14] = __popcll(~0ull);
      y[15] = __clzll(1); y[16] = __float_as_int(1.0f); y[17] = (int)__int_as_float(0x40400000); y[18] = __float2int_rn(2.5f);
      y[19] = __float2int_rz(-2.7f); y[20] = __float2int_ru(2.1f); y[21] = __float2int_rd(-2.1f); y[22] = __float2int_rn(3e10f);
      y[23] = __brevll(1ull) >> 63; y[24] = __ffsll(1ll << 40); y[25] = __mul24(-3, 5); y[26] = __sad(3, 9, 1);
    })");
  std::vector<int> y(27);
  const unsigned a = 0x12345678u, b = 0x9abcdef0u;
  k.launch("bits", {1, 1, 1}, {1, 1, 1}, a, b, y.data());
  const auto high = [](int64_t v) { return static_cast<int>(v >> 32); };
  EXPECT_THAT(
      y, testing::ElementsAre(13, 3, 4, 0x1e6a2c48, 32, 0, high(static_cast<int64_t>(uint64_t{a} * b)),
                              high(int64_t{static_cast<int>(a)} * static_cast<int>(b)), static_cast<int>(0x9ade1256u),
                              static_cast<int>((b << 5) | (a >> 27)), static_cast<int>((a >> 5) | (b << 27)), -3, 7, 9,
                              64, 63, 0x3f800000, 3, 2, -2, 3, -3, 2147483647, 1, 41, -15, 7));
}

TEST(LoopKernel, PreprocessorTemplatesStructsAndOperatorsWork) {
  kernels k(R"(
    #define SQUARE(x) ((x) * (x))   /* a macro */
    #define INDEX (blockIdx.x * \
                   blockDim.x + threadIdx.x)
    #if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    #define OFFSET 1.0f
    #else
    #error "not device code"
    #endif
    constexpr int width = 4;
    __constant__ float table[width] = {1.f, 2.f, 3.f, 4.f};
    typedef struct { float a, b; } pair_t;
    struct affine { float m, c; __device__ float operator()(float x) const { return m * x + c; } };
    __device__ inline float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
    template <class T, int N> __device__ __forceinline__ T power(T x) { T r = 1; for (int i = 0; i < N; ++i) r *= x; return r; }
    template <> __device__ inline float power<float, 0>(float) { return 100.f; }
    __device__ float here(float x);
    static __device__ __noinline__ float here(float x) { return x + (float)threadIdx.x; }
    extern "C" __global__ void __launch_bounds__(64, 2) all(const float* __restrict__ x, float4* y, int n, pair_t p) {
      int i = INDEX;
      if (i >= n) return;
      affine f{2.f, p.b};
      float lambda = [&](float v) { return f(v) + table[i % width]; }(x[i]);
      float4 v = make_float4(SQUARE(x[i]), power<float, 3>(x[i]), power<float, 0>(x[i]), here(lambda));
      y[i] = v + make_float4(OFFSET, 0.f, 0.f, p.a);
    })");
  struct pair {
    float a, b;
  };
  std::vector<float> x(40);
  std::iota(x.begin(), x.end(), 0.f);
  alignas(16) std::array<float, 160> y{};
  k.launch("all", {2, 1, 1}, {32, 1, 1}, x.data(), y.data(), 40, pair{0.5f, 7.f});
  for (size_t i = 0; i < 40; ++i) {
    const float v = x[i];
    ASSERT_EQ(y[4 * i], v * v + 1.f);
    ASSERT_EQ(y[4 * i + 1], v * v * v);
    ASSERT_EQ(y[4 * i + 2], 100.f);
    ASSERT_EQ(y[4 * i + 3], 2.f * v + 7.f + static_cast<float>(i % 4 + 1 + i % 32) + 0.5f);
  }
}

double best_ms(const std::function<void()>& run) {
  double best = 1e9;
  for (int i = 0; i < 15; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

// Compared with the same kernel in a form that the compiler cannot vectorise: the ratio shows that it did vectorise.
TEST(LoopKernel, PointwiseKernelsAndRowReductionsVectorise) {
  kernels k(R"(
    __device__ __forceinline__ float gelu1(float x) {
      return 0.5f * x * (1.f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))); }
    __global__ void relu(const float* a, const float* b, float* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = fmaxf(a[i] * b[i] + b[i], 0.f); }
    __global__ void relu_u(const float* a, const float* b, float* y, size_t n) {
      unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = fmaxf(a[i] * b[i] + b[i], 0.f); }
    __global__ void relu_slow(const float* a, const float* b, float* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x; __threadfence_block(); if (i < n) y[i] = fmaxf(a[i] * b[i] + b[i], 0.f); }
    __global__ void gelu(const float* a, float* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; y[i] = gelu1(a[i]); }
    __global__ void gelu_slow(const float* a, float* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x; __threadfence_block(); if (i >= n) return; y[i] = gelu1(a[i]); }
    __global__ void sum(const float* a, float* y, int rows) {
      int r = blockIdx.x * blockDim.x + threadIdx.x; if (r >= rows) return;
      const float* x = a + (long long)r * 1024; float acc[16];
      #pragma unroll
      for (int j = 0; j < 16; ++j) acc[j] = 0.f;
      for (int c = 0; c < 1024; c += 16) {
        #pragma unroll
        for (int j = 0; j < 16; ++j) acc[j] += x[c + j];
      }
      float s = 0.f;
      #pragma unroll
      for (int j = 0; j < 16; ++j) s += acc[j];
      y[r] = s; }
    __global__ void sum_slow(const float* a, float* y, int rows) {
      int r = blockIdx.x * blockDim.x + threadIdx.x; if (r >= rows) return;
      const float* x = a + (long long)r * 1024; float s = 0.f; for (int c = 0; c < 1024; ++c) s += x[c]; y[r] = s; })");
  constexpr int n = 1 << 18;  // in the last-level cache, so that the ratio is about instructions
  std::vector<float> a(n, 1.5f), b(n, 0.5f), y(n);
  const shape grid{n / 256, 1, 1}, block{256, 1, 1};
  const auto time = [&](const std::string& name) {
    return best_ms([&] { k.launch(name, grid, block, a.data(), b.data(), y.data(), n); });
  };
  const auto time2 = [&](const std::string& name, int count, shape g, shape bl) {
    return best_ms([&] { k.launch(name, g, bl, a.data(), y.data(), count); });
  };
  const double relu = time("relu"), slow = time("relu_slow");
  const double unsigned_relu =
      best_ms([&] { k.launch("relu_u", grid, block, a.data(), b.data(), y.data(), static_cast<size_t>(n)); });
  const double gelu = time2("gelu", n, grid, block), gelu_slow = time2("gelu_slow", n, grid, block);
  const double sum = time2("sum", 256, {8, 1, 1}, {32, 1, 1}), sum_slow = time2("sum_slow", 256, {8, 1, 1}, {32, 1, 1});
  RecordProperty("relu_ms", std::to_string(relu));
  std::printf(
      "262144 elements: relu %.3f ms (unsigned index %.3f, not vectorised %.3f); tanh-GELU %.3f (%.3f); "
      "256 rows of 1024: sum %.3f (%.3f)\n",
      relu, unsigned_relu, slow, gelu, gelu_slow, sum, sum_slow);
  EXPECT_LT(relu * 1.5, slow);
  EXPECT_LT(unsigned_relu * 1.5, slow);
  EXPECT_LT(gelu * 2, gelu_slow);
  EXPECT_LT(sum * 3, sum_slow);
}

}  // namespace
}  // namespace cudal1::test
