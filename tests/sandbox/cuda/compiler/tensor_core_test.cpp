// The dialect's functions for tensor cores and asynchronous copies compile for each architecture that has them.
#include <algorithm>
#include <array>
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/cuda/compiler/kernel_text.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"
#include "tests/sandbox/shared_tile_kernels.hpp"
#include "tests/sandbox/tensor_core_kernels.hpp"

namespace cudal1::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class tensor_cores : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(real, tensor_cores, testing::Values("sm_80", "sm_90", "sm_90a"));

TEST_P(tensor_cores, compile_with_every_function) {
  const auto made = compile(tensor_core_kernels, GetParam());
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(kernels_in(made->object),
              ElementsAre("copies", "loads", "pipeline", "pipeline_unrounded", "product_from_shared", "product_tf32",
                          "products_of_half_types", "round_to_even_tf32", "round_to_tf32"));
  for (const auto& r : made->resources) {
    EXPECT_EQ(r.spill_store_bytes, 0) << r.kernel;
    EXPECT_LE(r.registers, 64) << r.kernel;
  }
}

// The shortest of several compilations in turn. Printed only: other work on the machine would decide over a limit.
TEST_P(tensor_cores, cost_little_time_to_compile) {
  const std::array<std::string, 4> sources{"__global__ void k(float* y) {}\n",
                                           "__global__ void k(unsigned* y) { y[0] = tf32_of_float(1.0f); }\n",
                                           R"(__global__ void k(const float* x, float* y, int tiles) {
      __shared__ __align__(16) float a[2][16][8], b[2][8][8];
      const int i = threadIdx.x;
      float d[4] = {};
      copy_async<16>(&a[0][i / 2][i % 2 * 4], x + i * 4, true);
      copy_async_commit();
      for (int t = 0; t < tiles; ++t) {
        copy_async<16>(&a[(t + 1) & 1][i / 2][i % 2 * 4], x + (t + 1) * 128 + i * 4, t + 1 < tiles);
        copy_async_commit();
        copy_async_wait<1>();
        __syncthreads();
        unsigned fa[4], fb[2];
        load_matrix_x4(fa, &a[t & 1][i % 16][i / 16 * 4]);
        load_matrix_x2(fb, &b[t & 1][i % 8][i / 8 % 2 * 4]);
        for (int e = 0; e < 4; ++e) fa[e] = tf32_of_float(__uint_as_float(fa[e]));
        mma_m16n8k8_tf32(d, fa, fb);
        __syncthreads();
      }
      for (int e = 0; e < 4; ++e) y[4 * i + e] = d[e];
    }
)",
                                           tile_product_kernel({"mma_tf32x3", "multiply_abt"})};
  std::array<double, 4> best{1e9, 1e9, 1e9, 1e9};
  for (int round = 0; round < 8; ++round)
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const auto made = compile(sources[i], GetParam());
      ASSERT_TRUE(made) << made.error().message;
      best[i] = std::min(best[i], made->compile_ms);
    }
  std::printf(
      "%s: an empty kernel compiles in %.1f ms, one that names a function in %.1f ms, a product in %.1f ms, "
      "one by tiles in %.1f ms\n",
      GetParam(), best[0], best[1], best[2], best[3]);
}

TEST_P(tensor_cores, multiply_tiles_by_every_instruction_without_spilling) {
  std::string source;
  for (const auto& p : tile_products())
    source += tile_product_kernel(p);
  source += uneven_tile_kernel;
  const bool has_warpgroups = std::string(GetParam()) == "sm_90a";
  if (has_warpgroups) source += warpgroup_tile_kernel("mma_half") + warpgroup_tile_kernel("mma_bfloat16");
  const auto made = compile(source, GetParam());
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->log, "");
  EXPECT_EQ(kernels_in(made->object).size(), tile_products().size() + 2 + (has_warpgroups ? 2 : 0));
  for (const auto& r : made->resources)
    EXPECT_EQ(r.spill_store_bytes, 0) << r.kernel;
}

TEST(tensor_core_functions, are_added_only_where_they_are_used) {
  const auto without = cuda_kernel_text(in_kernel("y[0] = half_of_float(1.0f);"));
  const auto with = cuda_kernel_text(in_kernel("copy_async_commit();"));
  ASSERT_TRUE(without && with);
  EXPECT_THAT(*without, Not(HasSubstr("cp.async")));
  EXPECT_THAT(*with, HasSubstr("cp.async.commit_group"));
}

TEST(cluster_functions, compile_where_gpus_have_clusters) {
  for (const char* architecture : {"sm_90", "sm_90a"}) {
    const auto made = compile(cluster_kernels, architecture);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_THAT(kernels_in(made->object), ElementsAre("alone", "exchange"));
  }
  const auto older = compile(cluster_kernels, "sm_80");
  ASSERT_FALSE(older);
  EXPECT_THAT(older.error().message, HasSubstr("store_cluster need compute capability 9.0"));
}

TEST(warpgroup_functions, compile_for_the_one_architecture_that_has_them) {
  const auto made = compile(warpgroup_kernels, "sm_90a");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(kernels_in(made->object),
              ElementsAre("product_128k16_bfloat16", "product_128k16_bfloat16_transposed", "product_128k16_half",
                          "product_128k16_half_transposed", "product_192k16_bfloat16",
                          "product_192k16_bfloat16_transposed", "product_192k16_half", "product_192k16_half_transposed",
                          "product_256k16_bfloat16", "product_256k16_bfloat16_transposed", "product_256k16_half",
                          "product_256k16_half_transposed", "product_64k16_bfloat16",
                          "product_64k16_bfloat16_transposed", "product_64k16_half", "product_64k16_half_transposed"));
  for (const auto& r : made->resources)
    EXPECT_EQ(r.spill_store_bytes, 0) << r.kernel;
  for (const char* other : {"sm_80", "sm_90", "sm_100a"}) {
    const auto refused = compile(warpgroup_kernels, other);
    ASSERT_FALSE(refused) << other;
    EXPECT_THAT(refused.error().message, HasSubstr("need a GPU of compute capability 9.0 (H100")) << other;
  }
}

TEST(cluster_functions, are_no_variables_of_their_names) {
  const auto text = cuda_kernel_text(in_kernel("const int cluster_size = 4; y[0] = cluster_size;"));
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, Not(HasSubstr("barrier.cluster")));
}

TEST(tensor_core_functions, need_a_gpu_that_has_them) {
  const auto made = compile(in_kernel("copy_async_commit();"), "sm_75");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, errc::compile_failed);
  EXPECT_THAT(made.error().message, HasSubstr("copy_async and tf32_of_float need a GPU of compute capability 8.0"));
}

TEST(tensor_core_functions, cannot_be_redefined) {
  for (const char* source :
       {"__device__ void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {}\n",
        "__device__ void copy_async_commit() {}\n", "__device__ unsigned tf32_of_float(float v) { return 0; }\n"})
    EXPECT_THAT(compile_error(source + in_kernel("y[0] = 1;")).message, HasSubstr("already been defined"));
  EXPECT_THAT(compile_error(in_kernel("__shared__ float s[4]; copy_async<12>(s, y, true);")).message,
              HasSubstr("copies 4, 8 or 16 bytes"));
}

}  // namespace
}  // namespace cudal1::test
