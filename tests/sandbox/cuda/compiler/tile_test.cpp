// Tensor maps, the barriers of their transfers, cooperative and programmatic launches compile for the GPUs that have
// them; the barrier of all blocks may read what no other function may.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/cuda/compiler/kernel_text.hpp"
#include "sandbox/cuda/compiler/ptx_rules.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const char* const every_function = R"(
__global__ void tiles(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b, float* y) {
  __shared__ __align__(128) float box[256];
  __shared__ unsigned long long ready;
  if (threadIdx.x == 0) {
    transfer_init(&ready, 2);
    transfer_expect(&ready, 5 * sizeof box);
    load_tile(box, a, &ready, 1);
    load_tile(box, a, &ready, 1, 2);
    load_tile(box, a, &ready, 1, 2, 3);
    load_tile(box, a, &ready, 1, 2, 3, 4);
    load_tile(box, a, &ready, 1, 2, 3, 4, 5);
    transfer_arrive(&ready);
  }
  __syncthreads();
  transfer_wait(&ready, 0);
  transfer_wait(&ready, 1);
  y[threadIdx.x] = box[threadIdx.x];
  fence_shared_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    store_tile(b, box, 1);
    store_tile(b, box, 1, 2);
    store_tile(b, box, 1, 2, 3);
    store_tile_commit();
    store_tile(b, box, 1, 2, 3, 4);
    store_tile(b, box, 1, 2, 3, 4, 5);
    store_tile_commit();
    store_tile_wait<1>();
    store_tile_wait<0>();
  }
}
__global__ void waits(float* y) {
  wait_for_previous_kernel();
  y[threadIdx.x] = 1;
  let_next_kernel_begin();
}
)";

const char* const all_blocks = "__global__ void all(float* y) { y[blockIdx.x] = 1; grid_sync(); y[0] = y[1]; }\n";

TEST(tiles, compile_where_gpus_have_them) {
  for (const char* architecture : {"sm_90", "sm_90a", "sm_100a"}) {
    const auto made = compile(every_function, architecture);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_THAT(kernels_in(made->object), ElementsAre("tiles", "waits"));
    for (const auto& r : made->resources)
      EXPECT_EQ(r.stack_bytes, 0) << r.kernel << ": a map is read where the launch passes it";
  }
  const auto older = compile(every_function, "sm_80");
  ASSERT_FALSE(older);
  EXPECT_THAT(older.error().message, HasSubstr("load_tile and store_tile need a GPU of compute capability 9.0"));
}

TEST(grid_barrier, compiles_for_all_gpus) {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    const auto made = compile(all_blocks, architecture);
    ASSERT_TRUE(made) << made.error().message;
  }
  const auto without = cuda_kernel_text(in_kernel("const int grid_sync = 4; y[0] = grid_sync;"));
  ASSERT_TRUE(without);
  EXPECT_THAT(*without, Not(HasSubstr("cudal1_grid_barrier")));
}

// The counter of a cooperative launch outlives the kernel: only the dialect's own function comes to it.
TEST(grid_barrier, is_the_only_function_that_reads_where_the_counter_is) {
  const std::string read = "unsigned v; asm volatile(\"mov.u32 %0, %%envreg1;\" : \"=r\"(v)); y[0] = v;";
  EXPECT_THAT(compile_error(in_kernel(read)).message, HasSubstr("%envreg1"));
  EXPECT_THAT(compile_error(in_kernel(read + " grid_sync();")).message, HasSubstr("%envreg1"));
  const std::string forged = "extern \"C\" __device__ __noinline__ void cudal1_grid_barrier(";
  EXPECT_THAT(compile_error(forged + "float* y) { " + read + " }\n" + in_kernel("cudal1_grid_barrier(y);")).message,
              HasSubstr("%envreg1"))
      << "without grid_sync() the name is the program's";
  EXPECT_EQ(compile_error(forged + ") {}\n" + in_kernel("grid_sync();")).code, errc::compile_failed);
  EXPECT_EQ(
      compile_error(forged + "float* y) { " + read + " }\n" + in_kernel("grid_sync(); cudal1_grid_barrier(y);")).code,
      errc::compile_failed);
  EXPECT_FALSE(
      compile(in_kernel("asm volatile(\"ret; } .func cudal1_grid_barrier() { .reg .b32 v; mov.u32 v, %%envreg1;\");"
                        " grid_sync();")));
  const std::string other = "mov.u32 %0, %%envreg3;";
  EXPECT_THAT(
      compile_error(in_kernel("unsigned v; asm volatile(\"" + other + "\" : \"=r\"(v)); y[0] = v; grid_sync();"))
          .message,
      HasSubstr("%envreg3"));
}

}  // namespace
}  // namespace cudal1::test
