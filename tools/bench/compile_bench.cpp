// The time of one compilation by NVRTC in its confined processes, without a cache. No GPU is needed.
#include <benchmark/benchmark.h>

#include "sandbox/cuda/compiler/nvrtc_compiler.hpp"
#include "tools/bench/sample_program.hpp"

namespace cudal1::bench {
namespace {

constexpr std::string_view simple_kernel = R"(
__global__ void k(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(x[i], 0.0f) * MARK;
}
)";

// 128 x 128 elements of the result per block, 8 x 8 per thread.
constexpr std::string_view tiled_product = R"(
__global__ void k(const float* x, float* y, int n) {
  __shared__ float a[8][128], b[8][128];
  float sum[8][8] = {};
  const int row = threadIdx.x / 16 * 8, column = threadIdx.x % 16 * 8;
  const float* left = x + (long long)blockIdx.y * 128 * n;
  const float* right = x + blockIdx.x * 128;
  for (int first = 0; first < n; first += 8) {
    for (int i = threadIdx.x; i < 1024; i += 256) {
      a[i % 8][i / 8] = left[(i / 8) * n + first + i % 8];
      b[i / 128][i % 128] = right[(first + i / 128) * n + i % 128] * MARK;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      float l[8], r[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) l[i] = a[k][row + i], r[i] = b[k][column + i];
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] += l[i] * r[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j)
      y[(long long)(blockIdx.y * 128 + row + i) * n + blockIdx.x * 128 + column + j] = sum[i][j];
}
)";

// The kernel with another constant each time.
checked_program program_of(std::string_view kernel, int mark) {
  std::string source(kernel);
  source.replace(source.find("MARK"), 4, std::to_string(mark) + ".0f");
  return must(check_program_text(
      R"({"format":1,"name":"p","inputs":[{"name":"x","dtype":"float32","shape":[1024,1024]}],"steps":[)"
      R"({"alloc":"y","dtype":"float32","shape":[1024,1024]},{"launch":"k","grid":[8,8,1],"block":[256,1,1],)"
      R"("args":[{"in":"x"},{"out":"y"},{"i32":1024}]}],"outputs":["y"]})"
      "\n---\n" +
      source));
}

void compile_for_gpu(benchmark::State& state, std::string_view kernel) {
  nvrtc_compiler_options options;
  auto compiler = must(nvrtc_compiler::create(options));
  int mark = 1;
  must(compiler->compile(program_of(kernel, mark)));
  for (auto _ : state)
    must(compiler->compile(program_of(kernel, ++mark)));
}
BENCHMARK_CAPTURE(compile_for_gpu, simple, simple_kernel)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(20);
BENCHMARK_CAPTURE(compile_for_gpu, tiled_product, tiled_product)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(10);

}  // namespace
}  // namespace cudal1::bench
