// Programs that request NVIDIA's headers, which come in wheels beside LibTorch's (tools/bootstrap.sh).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;

// Compiles a source; skips the test if the wheel is missing.
#define COMPILED_WITH(made, headers, source)                                     \
  const auto made = compiler_for("sm_90a").compile(program_of(source, headers)); \
  if (!made && made.error().code == errc::unsupported) GTEST_SKIP() << made.error().message

TEST(headers, of_cuda_give_half_precision_and_tensor_cores) {
  COMPILED_WITH(made, {"cuda"}, R"(
    #include <cuda_fp16.h>
    #include <mma.h>
    __global__ void halves(const __half2* a, __half2* b, int n) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) b[i] = __hfma2(a[i], a[i], __float2half2_rn(1.0f));
    }
    __global__ void tensor(const __half* a, const __half* b, float* c) {
      using namespace nvcuda::wmma;
      fragment<matrix_a, 16, 16, 16, __half, row_major> fa;
      fragment<matrix_b, 16, 16, 16, __half, col_major> fb;
      fragment<accumulator, 16, 16, 16, float> fc;
      fill_fragment(fc, 0.0f);
      load_matrix_sync(fa, a, 16);
      load_matrix_sync(fb, b, 16);
      mma_sync(fc, fa, fb, fc);
      store_matrix_sync(c, fc, 16, mem_row_major);
    }
  )");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(kernels_in(made->object), testing::ElementsAre("halves", "tensor"));
}

TEST(headers, of_cub_and_libcudaxx_compile) {
  const std::vector<std::string> sets{"libcu++", "cub"};
  COMPILED_WITH(made, sets, R"(
    #include <cub/block/block_reduce.cuh>
    #include <cuda/std/limits>
    __global__ void sums(const float* a, float* b, int64_t n) {
      using reduce = cub::BlockReduce<float, 256>;
      __shared__ typename reduce::TempStorage storage;
      const float v = threadIdx.x < n ? a[blockIdx.x * 256 + threadIdx.x] : cuda::std::numeric_limits<float>::lowest();
      const float sum = reduce(storage).Sum(v);
      if (threadIdx.x == 0) b[blockIdx.x] = sum + INFINITY;
    }
  )");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(kernels_in(made->object), testing::Contains("sums"));
}

TEST(headers, of_cutlass_compile) {
  COMPILED_WITH(made, {"cutlass"}, R"(
    #include "cutlass/numeric_types.h"
    #include <cute/tensor.hpp>
    __global__ void rows(const float* a, cutlass::half_t* b, int n) {
      using namespace cute;
      const auto t = make_tensor(make_gmem_ptr(a), make_layout(make_shape(Int<16>{}, n)));
      if (threadIdx.x < 16) b[threadIdx.x] = cutlass::half_t(t(threadIdx.x, blockIdx.x));
    }
  )");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(kernels_in(made->object), testing::Contains("rows"));
}

TEST(headers, are_those_that_the_program_requested) {
  COMPILED_WITH(made, {"cuda"}, "#include <cub/cub.cuh>\n" + in_kernel("y[0] = 1.0f;"));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, errc::compile_failed);
  EXPECT_THAT(made.error().message, HasSubstr("cub/cub.cuh"));
}

TEST(headers, are_refused_on_the_cpu_with_a_reason) {
  const auto host = host_compiler::create({});
  ASSERT_TRUE(host) << host.error().message;
  const auto made = (*host)->compile(program_of(in_kernel("y[0] = 1.0f;"), {"cuda", "cub"}));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, errc::unsupported);
  EXPECT_THAT(made.error().message, HasSubstr("the program asks for cuda, cub"));
}

}  // namespace
}  // namespace cudal1::test
