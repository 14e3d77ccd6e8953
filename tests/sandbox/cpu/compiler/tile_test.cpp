// Boxes of tensors on their way to and from shared memory, their barriers, and the barrier of a cooperative launch:
// what the emulation refuses. What they compute is tested by the programs of tests/sandbox/honest, on every device.
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sandbox/cpu/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;

const char* const tile_kernels = R"(
  #define BEGIN                                                    \
    __shared__ __align__(1024) float box[64]; /* half is used */   \
    __shared__ unsigned long long ready;                           \
    if (threadIdx.x == 0) transfer_init(&ready, 1);                \
    __syncthreads();
  __global__ void at_a_corner(const __grid_constant__ tensor_map a, float* y, int row, int column) {
    BEGIN
    if (threadIdx.x == 0) { transfer_expect(&ready, 128); load_tile(box, a, &ready, row, column); }
    transfer_wait(&ready, 0);
    y[threadIdx.x] = box[threadIdx.x];
  }
  __global__ void without_waiting(const __grid_constant__ tensor_map a, float* y) {
    BEGIN
    if (threadIdx.x == 0) { transfer_expect(&ready, 128); load_tile(box, a, &ready, 0, 0); }
    __syncthreads();
    y[threadIdx.x] = box[threadIdx.x];
    __syncthreads();
    transfer_wait(&ready, 0);
  }
  __global__ void too_few_bytes(const __grid_constant__ tensor_map a, float* y) {
    BEGIN
    if (threadIdx.x == 0) { transfer_expect(&ready, 128 - 4); load_tile(box, a, &ready, 0, 0); }
    transfer_wait(&ready, 0);
  }
  __global__ void nobody_arrives(const __grid_constant__ tensor_map a, float* y) {
    BEGIN
    transfer_wait(&ready, 0);
  }
  __global__ void without_barrier(const __grid_constant__ tensor_map a, float* y) {
    __shared__ unsigned long long ready;
    transfer_arrive(&ready);
  }
  __global__ void odd_place(const __grid_constant__ tensor_map a, float* y) {
    BEGIN
    if (threadIdx.x == 0) load_tile(box + 4, a, &ready, 0, 0);
  }
  __global__ void beyond_shared(const __grid_constant__ tensor_map a, float* y) {
    BEGIN
    if (threadIdx.x == 0) load_tile(y, a, &ready, 0, 0);
  }
  __global__ void made_up(const __grid_constant__ tensor_map a, float* y) {
    BEGIN
    tensor_map other = {};
    if (threadIdx.x == 0) load_tile(box, other, &ready, 0, 0);
  }
  __global__ void one_coordinate(const __grid_constant__ tensor_map a, float* y) {
    BEGIN
    if (threadIdx.x == 0) load_tile(box, a, &ready, 0);
  }
  __global__ void ends_too_early(const __grid_constant__ tensor_map a, float* y) {
    BEGIN
    box[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) { store_tile(a, box, 0, 0); store_tile_commit(); }
  }
  // Two stages of one box each; consumers hand a stage back, and the producer, a thread of its own warp, waits for that.
  __global__ void producer_and_consumers(const __grid_constant__ tensor_map a, float* y, int boxes) {
    __shared__ __align__(1024) float box[2][64];  // of which a box takes half
    __shared__ unsigned long long full[2], empty[2];
    if (threadIdx.x == 0)
      for (int s = 0; s < 2; ++s) { transfer_init(full + s, 1); transfer_init(empty + s, 32); }
    __syncthreads();
    if (threadIdx.x >= 32) {
      if (threadIdx.x == 32)
        for (int i = 0; i < boxes; ++i) {
          transfer_wait(empty + i % 2, (i / 2 & 1) ^ 1);
          transfer_expect(full + i % 2, 4 * 8 * sizeof(float));
          load_tile(box[i % 2], a, full + i % 2, 4 * i, 0);
        }
      return;
    }
    float sum = 0;
    for (int i = 0; i < boxes; ++i) {
      transfer_wait(full + i % 2, i / 2 & 1);
      sum += box[i % 2][threadIdx.x] * (i + 1);
      transfer_arrive(empty + i % 2);
    }
    y[threadIdx.x] = sum;
  }
)";

tensor_map_value map_of(kernels& k, const std::vector<float>& a, std::vector<int64_t> shape) {
  const auto made = k.library().map_tensor({{4, 8}, 32}, contiguous(dtype::float32, std::move(shape)), a.data());
  EXPECT_TRUE(made) << made.error().message;
  return *made;
}

std::vector<float> numbers(std::size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

// The place in shared memory of element (row, column) of a box of rows of 32 bytes.
std::size_t swizzled(std::size_t row, std::size_t column) {
  const std::size_t at = row * 32 + column * 4;
  return (at ^ (at >> 7 & 1) << 4) / 4;
}

TEST(Tiles, AreZeroOutsideTheTensor) {
  kernels k(tile_kernels);
  EXPECT_TRUE(k.uses_fibers("at_a_corner"));
  const auto a = numbers(6 * 12);
  std::vector<float> y(32);
  for (const int row : {-3, 0, 4, 6})
    for (const int column : {-5, 0, 8, 11, 400}) {
      k.launch("at_a_corner", {1, 1, 1}, {32, 1, 1}, map_of(k, a, {6, 12}), y.data(), row, column);
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 8; ++j) {
          const bool inside = row + i >= 0 && row + i < 6 && column + j >= 0 && column + j < 12;
          const float wanted = inside ? a[static_cast<std::size_t>((row + i) * 12 + column + j)] : 0;
          ASSERT_EQ(y[swizzled(static_cast<std::size_t>(i), static_cast<std::size_t>(j))], wanted)
              << row << ", " << column << ": " << i << ", " << j;
        }
    }
}

TEST(Tiles, HoldNoUsefulValueBeforeTheyAreWaitedFor) {
  kernels k(tile_kernels);
  const auto a = numbers(4 * 8);
  std::vector<float> y(32);
  k.launch("without_waiting", {1, 1, 1}, {32, 1, 1}, map_of(k, a, {4, 8}), y.data());
  for (const float v : y)
    EXPECT_TRUE(std::isnan(v)) << v;
}

TEST(Tiles, GoThroughStagesWhosePhasesAlternate) {
  kernels k(tile_kernels);
  for (const int boxes : {1, 2, 3, 7}) {
    const auto a = numbers(static_cast<std::size_t>(boxes) * 32);
    std::vector<float> y(32);
    k.launch("producer_and_consumers", {1, 1, 1}, {64, 1, 1}, map_of(k, a, {boxes * 4, 8}), y.data(), boxes);
    for (std::size_t row = 0; row < 4; ++row)
      for (std::size_t column = 0; column < 8; ++column) {
        float sum = 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(boxes); ++i)
          sum += a[i * 32 + row * 8 + column] * static_cast<float>(i + 1);
        EXPECT_EQ(y[swizzled(row, column)], sum);
      }
  }
}

TEST(Tiles, NeedMemoryAtAMultipleOfSixteen) {
  kernels k(tile_kernels);
  const auto a = numbers(64);
  const auto made = k.library().map_tensor({{4, 8}, 32}, contiguous(dtype::float32, {4, 8}), a.data() + 1);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("at a multiple of 16 bytes"));
}

TEST(TilesDeath, MisuseIsAFault) {
  kernels k(tile_kernels);
  const auto a = numbers(4 * 8);
  std::vector<float> y(64);
  const auto run = [&](const char* name) { k.launch(name, {1, 1, 1}, {32, 1, 1}, map_of(k, a, {4, 8}), y.data()); };
  EXPECT_DEATH(run("too_few_bytes"), "32 wait at transfer_wait, for arrivals or for bytes that no load_tile brings");
  EXPECT_DEATH(run("nobody_arrives"), "32 wait at transfer_wait");
  EXPECT_DEATH(run("without_barrier"), "the barrier is not initialised");
  EXPECT_DEATH(run("odd_place"), "load_tile: the address in shared memory is no multiple of 256");
  EXPECT_DEATH(run("beyond_shared"), "load_tile: the box of 128 bytes does not lie in shared memory");
  EXPECT_DEATH(run("made_up"), "load_tile: the tensor map is none that a launch has passed");
  EXPECT_DEATH(run("one_coordinate"), "load_tile with 1 coordinates of a map of 2 dimensions");
  EXPECT_DEATH(run("ends_too_early"), "thread 0 of a block ends before it has waited for the tiles that it stores");
}

const char* const grid_kernels = R"(
  __global__ void turns(unsigned* y, int rounds) {
    const int block = blockIdx.y * gridDim.x + blockIdx.x, blocks = gridDim.x * gridDim.y;
    for (int r = 0; r < rounds; ++r) {
      if (threadIdx.x == 0 && r % blocks == block) y[r + 1] = y[r] + block + 1;
      grid_sync();
    }
  }
  __global__ void leaves(unsigned* y, int rounds) {
    if (blockIdx.x == 1) return;
    grid_sync();
  }
  __global__ void clusters(unsigned* y, int rounds) {
    __shared__ float v[32];
    v[threadIdx.x] = threadIdx.x;
    grid_sync();
    cluster_sync();
    y[blockIdx.x] = 100 * cluster_rank() + 10 * cluster_size() + (unsigned)load_cluster(v + 3, 0);
  }
)";

TEST(Grids, MeetAtBarriersOfAllBlocks) {
  kernels k(grid_kernels);
  std::vector<uint32_t> y(21);
  k.launch_cooperatively("turns", {3, 2, 1}, {64, 1, 1}, y.data(), 20);
  for (std::size_t r = 0; r < 20; ++r)
    EXPECT_EQ(y[r + 1], y[r] + r % 6 + 1) << r;
  k.launch_cooperatively("clusters", {5, 1, 1}, {32, 1, 1}, y.data(), 1);
  for (std::size_t b = 0; b < 5; ++b)
    EXPECT_EQ(y[b], 13u) << "each block is a cluster";
}

TEST(GridsDeath, MisuseIsAFault) {
  kernels k(grid_kernels);
  std::vector<uint32_t> y(64);
  EXPECT_DEATH(k.launch("turns", {2, 1, 1}, {32, 1, 1}, y.data(), 4),
               "grid_sync in a launch that is not a cooperative");
  EXPECT_DEATH(k.launch_cooperatively("leaves", {2, 1, 1}, {32, 1, 1}, y.data(), 4),
               "32 wait at grid_sync, which all blocks of the launch must reach");
  EXPECT_DEATH(k.launch_cooperatively("turns", {1000, 1, 1}, {32, 1, 1}, y.data(), 4),
               "runs at most 8192 threads at the same time");
}

}  // namespace
}  // namespace cudal1::test
