// Fiber kernels: barriers, shared memory, shuffles, votes; compared with plain loops; and deadlocks.
#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sandbox/cpu/compiler/harness.hpp"

namespace cudal1::test {
namespace {

TEST(FiberKernel, BlockReductionAndScanEqualPlainLoops) {
  kernels k(R"(
    __device__ float warp_sum(float v) {
      for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
      return v;
    }
    __global__ void sum(const float* x, float* y, int n) {
      __shared__ float partial[32];
      const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
      float v = 0.f;
      for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[blockIdx.x * n + i];
      v = warp_sum(v);
      if (lane == 0) partial[warp] = v;
      __syncthreads();
      if (warp == 0) {
        v = lane < blockDim.x / 32 ? partial[lane] : 0.f;
        v = warp_sum(v);
        if (lane == 0) y[blockIdx.x] = v;
      }
    }
    __global__ void scan(const int* x, int* y) {
      extern __shared__ int buffer[];
      int* in = buffer; int* out = buffer + blockDim.x;
      const int t = threadIdx.x;
      in[t] = x[blockIdx.x * blockDim.x + t];
      __syncthreads();
      for (int d = 1; d < blockDim.x; d *= 2) {
        out[t] = t >= d ? in[t] + in[t - d] : in[t];
        __syncthreads();
        int* s = in; in = out; out = s;
      }
      y[blockIdx.x * blockDim.x + t] = in[t];
    })");
  EXPECT_TRUE(k.uses_fibers("sum"));
  std::vector<float> x(5 * 1000), y(5), wanted(5);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i * 37 % 101) - 50.f;  // sums of small integers are exact in any order
    wanted[i / 1000] += x[i];
  }
  for (const int64_t threads : {32, 64, 256, 1024}) {
    std::fill(y.begin(), y.end(), 0.f);
    k.launch("sum", {5, 1, 1}, {threads, 1, 1}, x.data(), y.data(), 1000);
    EXPECT_EQ(y, wanted) << threads;
  }
  for (const int64_t threads : {1, 31, 32, 100, 1024}) {
    std::vector<int> in(static_cast<size_t>(3 * threads)), out(in), sums(in);
    for (size_t i = 0; i < in.size(); ++i) {
      in[i] = static_cast<int>(i * 7919 % 1000);
      sums[i] = in[i] + (i % static_cast<size_t>(threads) == 0 ? 0 : sums[i - 1]);
    }
    k.launch_shared("scan", {3, 1, 1}, {threads, 1, 1}, 2 * threads * 4, 1, in.data(), out.data());
    EXPECT_EQ(out, sums) << threads;
  }
}

TEST(FiberKernel, ShufflesOfEveryKindAndWidthFollowTheProgrammingGuide) {
  kernels k(R"(
    __global__ void shuffle(int* y) {
      const int l = threadIdx.x; int* r = y + 8 * l;
      r[0] = __shfl_sync(~0u, l, 5); r[1] = __shfl_sync(~0u, l, 3, 8); r[2] = __shfl_up_sync(~0u, l, 2, 16);
      r[3] = __shfl_down_sync(~0u, l, 3, 8); r[4] = __shfl_xor_sync(~0u, l, 7); r[5] = __shfl_xor_sync(~0u, l, 8, 8);
      r[6] = (int)__shfl_sync(~0u, 4294967296.0 + l, 31 - l) == 0;
      r[7] = (int)(__shfl_down_sync(~0u, (long long)l << 33, 1) >> 33);
    })");
  std::vector<int> y(256);
  k.launch("shuffle", {1, 1, 1}, {32, 1, 1}, y.data());
  for (int l = 0; l < 32; ++l) {
    const std::vector<int> r(y.begin() + 8 * l, y.begin() + 8 * l + 8);
    EXPECT_THAT(r, testing::ElementsAre(5, l / 8 * 8 + 3, l % 16 >= 2 ? l - 2 : l, l % 8 + 3 < 8 ? l + 3 : l, l ^ 7,
                                        (l ^ 8) > (l | 7) ? l : l ^ 8, testing::_, l < 31 ? l + 1 : l))
        << l;
  }
}

TEST(FiberKernel, VotesMasksAndReductionsAreExact) {
  kernels k(R"(
    __global__ void votes(unsigned* y) {
      const unsigned l = threadIdx.x; unsigned* r = y + 10 * l;
      r[0] = __ballot_sync(~0u, l % 3 == 0); r[1] = __any_sync(~0u, l == 9); r[2] = __all_sync(~0u, l < 31);
      r[3] = __all_sync(~0u, l < 32); r[4] = __match_any_sync(~0u, l / 5); r[5] = __reduce_add_sync(~0u, l);
      r[6] = (unsigned)__reduce_min_sync(~0u, 3 - (int)l); r[7] = __reduce_max_sync(~0u, l ^ 21u);
      unsigned half = 0;                                   // two halves of a warp on their own
      if (l < 16) { half = __ballot_sync(0x0000ffffu, l & 1); } else { half = __ballot_sync(0xffff0000u, l & 2); }
      r[8] = half;
      r[9] = 0;
      if (l % 4 == 1) r[9] = __activemask();
    })");
  std::vector<unsigned> y(320);
  k.launch("votes", {1, 1, 1}, {32, 1, 1}, y.data());
  unsigned thirds = 0;
  for (unsigned l = 0; l < 32; l += 3)
    thirds |= 1u << l;
  for (unsigned l = 0; l < 32; ++l) {
    const unsigned group = l / 5 * 5;
    const unsigned same = static_cast<unsigned>((uint64_t{31} << group) & 0xffffffffu);
    const std::vector<unsigned> r(y.begin() + 10 * l, y.begin() + 10 * l + 10);
    EXPECT_THAT(r, testing::ElementsAre(thirds, 1u, 0u, 1u, same, 496u, static_cast<unsigned>(-28), 31u,
                                        l < 16 ? 0x0000aaaau : 0xcccc0000u, l % 4 == 1 ? 0x22222222u : 0u))
        << l;
  }
}

TEST(FiberKernel, BarriersThatCountReduceAcrossTheBlock) {
  kernels k(R"(
    __global__ void count(int* y) {
      const int t = threadIdx.x + blockDim.x * threadIdx.y;
      y[3 * t] = __syncthreads_count(t % 7 == 0); y[3 * t + 1] = __syncthreads_and(t < 59); y[3 * t + 2] = __syncthreads_or(t == 59);
    })");
  std::vector<int> y(180);
  k.launch("count", {1, 1, 1}, {20, 3, 1}, y.data());
  for (size_t t = 0; t < 60; ++t)
    EXPECT_THAT(std::vector<int>(y.begin() + 3 * t, y.begin() + 3 * t + 3), testing::ElementsAre(9, 0, 1));
}

TEST(FiberKernel, ThreadsThatHaveEndedCountAsArrived) {
  kernels k(R"(
    __global__ void leave(int* y, int n) {
      __shared__ int s[64];
      int t = threadIdx.x;
      if (t >= n) return;
      s[t] = t;
      __syncthreads();
      y[t] = s[n - 1 - t];
      if (t % 2) return;
      y[t] += 100 * __shfl_xor_sync(~0u, 1, 1);          // the odd lanes have left: what they would give is undefined
      __syncthreads();
      y[t] = y[t] > -1000000000 ? s[n - 1 - t] + 1000 : -1;
    })");
  std::vector<int> y(64, -1);
  k.launch("leave", {1, 1, 1}, {64, 1, 1}, y.data(), 50);
  for (int t = 0; t < 64; ++t)
    EXPECT_EQ(y[static_cast<size_t>(t)], t >= 50 ? -1 : 49 - t + (t % 2 ? 0 : 1000));
}

TEST(FiberKernel, SharedVariablesAreOnePerBlockAndDeclaration) {
  kernels k(R"(
    extern __shared__ __align__(16) unsigned char raw[];
    __shared__ int outside[4];
    template <class T> __device__ T through(T v) { __shared__ T box; __syncthreads(); if (threadIdx.x == 7) box = v; __syncthreads(); return box; }
    struct cell { int a; double b; };
    __global__ void all(double* y, int n) {
      __shared__ cell c[2]; __shared__ float m[3][33], v; static __shared__ volatile int w;
      int t = threadIdx.x;
      if (t == 0) { c[0] = {1, 2.0}; c[1] = {3, 4.0}; m[2][32] = 5.f; v = 6.f; w = 7; ((int*)raw)[n - 1] = 8; outside[3] = 9; }
      __syncthreads();
      double i = through(t), f = through(t + 0.5f);
      y[blockIdx.x * blockDim.x + t] = c[1].b + m[2][32] * 10 + v * 100 + w * 1000 + ((int*)raw)[n - 1] * 1e4 + outside[3] * 1e5 + i * 1e6 + f * 1e7;
    }
    __global__ void poison(unsigned* y) { __shared__ unsigned s[16]; extern __shared__ unsigned d[]; __syncthreads(); y[threadIdx.x] = s[threadIdx.x] & d[threadIdx.x]; }
  )");
  std::vector<double> y(64);
  k.launch_shared("all", {2, 1, 1}, {32, 1, 1}, 400, 1, y.data(), 100);
  EXPECT_THAT(y, testing::Each(4.0 + 50 + 600 + 7000 + 8e4 + 9e5 + 7e6 + 7.5e7));
  std::vector<unsigned> p(16);
  k.launch_shared("poison", {1, 1, 1}, {16, 1, 1}, 64, 1, p.data());
  EXPECT_THAT(p, testing::Each(0xffffffffu)) << "uninitialised shared memory must not look like zeros";
}

TEST(FiberKernel, AllSharedMemoryThatAGpuHasCanBeUsed) {
  kernels k(R"(
    __global__ void big(int* y, int n) {
      extern __shared__ int s[];
      for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = i;
      __syncthreads();
      for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = s[n - 1 - i];
    })");
  const int n = (227 << 10) / 4;
  std::vector<int> y(static_cast<size_t>(n));
  k.launch_shared("big", {1, 1, 1}, {1024, 1, 1}, 227 << 10, 1, y.data(), n);
  for (int i = 0; i < n; ++i)
    ASSERT_EQ(y[static_cast<size_t>(i)], n - 1 - i);
}

void launch_to_death(const std::string& body, int64_t threads) {
  kernels k("__global__ void f(int* y) { " + body + " }");
  std::vector<int> y(2048);
  k.launch_shared("f", {1, 1, 1}, {threads, 1, 1}, 200 << 10, 1, y.data());
}

TEST(FiberKernelDeath, DeadlocksAndBadLaunchesAreFaultsWithAReason) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  // Half of the block waits at a barrier, the other half in a shuffle that needs the first.
  EXPECT_DEATH(
      launch_to_death("if (threadIdx.x < 16) __syncthreads(); else y[0] = __shfl_sync(~0u, 1, 0); __syncwarp();", 32),
      "kernel fault: deadlock in block \\(0, 0, 0\\): of 32 threads 16 wait at __syncthreads, 16 in warp");
  EXPECT_DEATH(launch_to_death("__shfl_sync(2u, 1, 0);", 32), "leaves out its own lane");
  EXPECT_DEATH(launch_to_death("__shared__ int s[12000]; s[0] = 1; y[0] = s[threadIdx.x];", 32),
               "more than 232448 bytes of shared memory");
  EXPECT_DEATH(launch_to_death("if (threadIdx.x % 2) __syncwarp(); else y[0] = __any_sync(~0u, 1);", 32),
               "different warp operations");
  EXPECT_DEATH(launch_to_death("__syncthreads();", 1025), "out of range");
}

}  // namespace
}  // namespace cudal1::test
