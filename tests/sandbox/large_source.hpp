// Sources that are large enough to be compiled in pieces.
#pragma once

#include <string>

#include <fmt/format.h>

namespace cudal1::test {

// Line 1, which declares what all kernels use. Then kernels scale_0, scale_1, ..., of five lines each: scale_I(x, y, n)
// writes y[j] = factor(I) * x[j] + table[j % 4], and its comment makes it about 4 KiB long: four pieces of 20 to
// 31 kernels in all.
inline constexpr const char* shared_line =
    "__constant__ float table[4] = {1.f, 2.f, 3.f, 4.f}; __device__ float factor(int i) { return 0.5f * i; }\n";

inline std::string scale_kernel(int i, const std::string& more = "") {
  return fmt::format(
      "// {0} {1}\n__global__ void scale_{0}(const float* x, float* y, int n) {{\n"
      "  const int j = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (j < n) y[j] = factor({0}) * x[j] + table[j % 4]{2};\n}}\n",
      i, std::string(4000, '-'), more);
}

// `more`: what kernel `changed` has behind its expression.
inline std::string scale_kernels(int count, int changed = -1, const std::string& more = "") {
  std::string source = shared_line;
  for (int i = 0; i < count; ++i)
    source += scale_kernel(i, i == changed ? more : "");
  return source;
}

}  // namespace cudal1::test
