// Clusters of blocks: barriers across blocks, and shared memory of other blocks.
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sandbox/cpu/compiler/harness.hpp"
#include "tests/sandbox/tensor_core_kernels.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;

TEST(Clusters, ExchangeThroughEachOthersSharedMemory) {
  kernels k(cluster_kernels);
  EXPECT_TRUE(k.uses_fibers("exchange"));
  std::vector<float> x(std::size_t{24} * 64), y(2 * x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i * 37 % 101);
  std::vector<uint32_t> ranks(24);
  k.launch("exchange", {6, 4, 1}, {64, 1, 1}, x.data(), y.data(), ranks.data());
  const auto block_at = [](std::size_t block, std::size_t rank) {  // of the same cluster
    return (block / 6 / 2 * 2 + rank / 3) * 6 + block % 6 / 3 * 3 + rank % 3;
  };
  for (std::size_t block = 0; block < 24; ++block) {
    const std::size_t rank = block / 6 % 2 * 3 + block % 3;
    EXPECT_EQ(ranks[block], rank * 100 + 6);
    for (std::size_t t = 0; t < 64; ++t) {
      float sum = 0;
      for (std::size_t r = 0; r < 6; ++r)
        sum += x[block_at(block, r) * 64 + t];
      EXPECT_EQ(y[block * 128 + t], sum) << block;
      EXPECT_EQ(y[block * 128 + 64 + t], x[block_at(block, (rank + 1) % 6) * 64 + 63 - t]) << block;
    }
  }
}

TEST(Clusters, OfOneBlockAreWhatOtherKernelsHave) {
  kernels k(cluster_kernels);
  std::vector<uint32_t> ranks(3);
  k.launch("alone", {3, 1, 1}, {64, 1, 1}, ranks.data());
  EXPECT_THAT(ranks, testing::Each(1u));
}

// Variables lie at the same place in each block, whichever block comes to them first.
TEST(Clusters, HaveOneLayoutOfSharedMemory) {
  kernels k(R"(
    constexpr int blocks = 4;
    __device__ float first(float v) { __shared__ float s[32]; s[threadIdx.x] = v; __syncthreads(); return s[0]; }
    __device__ float second(float v) { __shared__ float s[32]; s[threadIdx.x] = v; __syncthreads(); return s[0]; }
    __cluster_dims__(blocks, 1, 1) __global__ void k(float* y) {
      extern __shared__ float dynamic[];
      dynamic[threadIdx.x] = 10.0f * cluster_rank() + threadIdx.x;
      __shared__ float common[32];
      const float v = cluster_rank() % 2 ? first(1) + second(2) : second(2) + first(1);
      common[threadIdx.x] = v + cluster_rank();
      cluster_sync();
      const unsigned next = (cluster_rank() + 1) % blocks;
      y[blockIdx.x * 32 + threadIdx.x] = load_cluster(common + threadIdx.x, next) + load_cluster(dynamic + 5, next);
      cluster_sync();
    })");
  std::vector<float> y(8 * 32);
  k.launch_shared("k", {8, 1, 1}, {32, 1, 1}, 128, 1, y.data());
  for (std::size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(y[i], 8.0f + 11.0f * static_cast<float>((i / 32 + 1) % 4));
}

TEST(ClustersDeath, MisuseIsAFault) {
  kernels k(R"(
    __cluster_dims__(2, 1, 1) __global__ void ended(float* y) {
      __shared__ float s[32];
      s[threadIdx.x] = 1;
      cluster_sync();
      if (cluster_rank() == 1) return;
      for (int i = 0; i < 4; ++i) __syncthreads();
      y[threadIdx.x] = load_cluster(s, 1);
    }
    __cluster_dims__(2, 1, 1) __global__ void beyond(float* y) {
      __shared__ float s[32];
      s[threadIdx.x] = 1;
      y[threadIdx.x] = load_cluster(s, 2);
    }
    __cluster_dims__(2, 1, 1) __global__ void stuck(float* y) {
      if (cluster_rank() == 0 && threadIdx.x == 0) cluster_sync(); else __syncthreads();
      cluster_sync();
      y[threadIdx.x] = 1;
    }
    __cluster_dims__(4, 4, 1) __global__ void large(float* y) { cluster_sync(); y[0] = 1; })");
  std::vector<float> y(64);
  const auto run = [&](const char* name, int64_t blocks) { k.launch(name, {blocks, 4, 1}, {32, 1, 1}, y.data()); };
  EXPECT_DEATH(run("ended", 2), "block 1 of the cluster has ended");
  EXPECT_DEATH(run("beyond", 2), "names block 2 of a cluster of 2");
  EXPECT_DEATH(run("stuck", 2), "wait at cluster_sync");
  EXPECT_DEATH(run("ended", 3), "does not consist of clusters of \\(2, 1, 1\\)");
  EXPECT_DEATH(run("large", 4), "a cluster has at most 8");
}

TEST(Clusters, TheirFunctionsCannotBeRedefined) {
  EXPECT_THAT(compile_error("__device__ void cluster_sync() {}\n__global__ void k(float* y) { y[0] = 1; }").message,
              HasSubstr("is a function of the dialect"));
}

}  // namespace
}  // namespace cudal1::test
