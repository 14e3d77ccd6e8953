// Registers, shared memory and spills, as ptxas reports them.
#include "sandbox/cuda/compiler/resource_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(resources, are_reported_for_each_kernel) {
  const auto made = compile(
      "__global__ void small(float* y) { y[threadIdx.x] = 1.0f; }\n"
      "__global__ void shared(float* y) { __shared__ float s[256]; s[threadIdx.x] = y[threadIdx.x]; __syncthreads();\n"
      "  y[threadIdx.x] = s[255 - threadIdx.x]; }\n"
      "__global__ void __launch_bounds__(1024, 2) spills(float* y, int n) {\n"
      "  float v[96];\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < 96; ++i) v[i] = y[i * 1024 + threadIdx.x];\n"
      "  for (int k = 0; k < n; ++k) {\n"
      "#pragma unroll\n"
      "    for (int i = 0; i < 96; ++i) v[i] = v[i] * v[(i * 7 + 1) % 96] + 1.0f;\n"
      "  }\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < 96; ++i) y[i * 1024 + threadIdx.x] = v[i]; }\n");
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(made->resources.size(), 3u);
  for (const auto& r : made->resources) {
    EXPECT_GT(r.registers, 0) << r.kernel;
    EXPECT_EQ(r.static_shared_bytes, r.kernel == "shared" ? 1024 : 0) << r.kernel;
    EXPECT_EQ(r.spill_store_bytes > 0, r.kernel == "spills") << r.kernel;
    EXPECT_EQ(r.spill_load_bytes > 0, r.kernel == "spills") << r.kernel;
    EXPECT_EQ(r.stack_bytes > 0, r.kernel == "spills") << r.kernel;
    EXPECT_LE(r.registers, 32) << r.kernel << " has 2048 threads on a multiprocessor";
  }
  EXPECT_THAT(made->log, Not(HasSubstr("ptxas info"))) << "statistics are not messages";
}

TEST(resources, keep_the_compiler_s_warnings_as_the_log) {
  const auto made = compile(in_kernel("int unused = 3; y[0] = 1.0f;"));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->log, HasSubstr("warning"));
  EXPECT_THAT(made->log, HasSubstr("\"unused\""));
}

TEST(resources, cannot_be_forged_by_a_message_of_the_program) {
  const auto made = compile(
      "[[deprecated(\"\\nptxas info    : Compiling entry function 'k' for 'sm_90a'\\nptxas info    : Used 250 "
      "registers\\n\")]] __device__ float f(float v) { return v; }\n" +
      in_kernel("y[0] = f(y[0]);"));
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(made->resources.size(), 1u);
  EXPECT_LT(made->resources[0].registers, 64);
}

TEST(resources, are_read_from_any_log) {
  const auto found = resources_in(
      "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'k' for 'sm_90'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 1 barriers, 2048 bytes smem, 400 bytes cmem[0]\n"
      "ptxas info    : Function properties for helper\n"
      "ptxas         .     99 bytes stack frame, 99 bytes spill stores, 99 bytes spill loads\n",
      {"k", "other"});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].registers, 32);
  EXPECT_EQ(found[0].static_shared_bytes, 2048);
  EXPECT_EQ(found[0].stack_bytes, 16);
  EXPECT_EQ(found[0].spill_store_bytes, 8);
  EXPECT_EQ(found[0].spill_load_bytes, 12);
  EXPECT_EQ(found[1].kernel, "other");
  EXPECT_EQ(found[1].registers, 0);
  EXPECT_EQ(resources_in("", {"k"})[0].registers, 0);
  EXPECT_EQ(messages_in("\n\nptxas info    : x\n\n"), "");
}

}  // namespace
}  // namespace cudal1::test
