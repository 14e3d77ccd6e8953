// Programs that the tests start from.
#pragma once

#include <string>
#include <string_view>

#include "sandbox/program/check.hpp"

namespace cudal1 {

// The error of reading and checking a text; "" where it has none.
inline std::string problem_of(std::string_view text) {
  const auto checked = check_program_text(text);
  return checked ? "" : checked.error().message;
}

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  if (at == std::string::npos) return "the example has no such part: " + std::string(from);
  return text.replace(at, from.size(), to);
}

// An alloc, a launch and an ATen step.
inline const std::string row_scale_text = R"({ "format": 1, "name": "row_scale",
  "inputs": [{"name": "a", "dtype": "float32", "shape": [64]}, {"name": "b", "dtype": "float32", "shape": [64, 32]}],
  "steps": [
    {"alloc": "y", "dtype": "float32", "shape": [64, 32]},
    {"launch": "row_scale", "grid": [64, 1, 1], "block": [32, 1, 1], "shared_bytes": 0,
     "args": [{"in": "a"}, {"in": "b"}, {"out": "y"}, {"i32": 32}]},
    {"aten": "aten::relu", "args": {"self": "y"}, "out": ["z"]}],
  "outputs": ["z"] }
---
// Multiplies row i of b by a[i].
__global__ void row_scale(const float* __restrict__ a, const float* b, float* y, int n) {
  y[blockIdx.x * n + threadIdx.x] = a[blockIdx.x] * b[blockIdx.x * n + threadIdx.x];
}
)";

// Tensor maps, a cooperative launch and one that may begin early.
inline const std::string hopper_text = R"({ "format": 1, "name": "hopper",
  "inputs": [{"name": "a", "dtype": "bfloat16", "shape": [100, 64]}],
  "steps": [
    {"alloc": "b", "dtype": "bfloat16", "shape": [100, 64]},
    {"launch": "tiles", "grid": [4], "block": [32],
     "args": [{"in": "a", "map": {"box": [32, 64], "swizzle": 128}}, {"map": {"box": [32, 8]}, "out": "b"}]},
    {"alloc": "y", "dtype": "bfloat16", "shape": [100, 64]},
    {"launch": "all", "grid": [4], "block": [32], "cooperative": true, "programmatic": true,
     "args": [{"in": "b"}, {"out": "y"}, {"i32": 6400}]}],
  "outputs": ["y"] }
---
__global__ void tiles(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b) {}
__global__ void all(const unsigned short* b, unsigned short* y, int n) {
  wait_for_previous_kernel();
  grid_sync();
}
)";

// Weights and setup: a transposed weight is prepared once.
inline const std::string prepacked_text = R"({ "format": 1, "name": "prepacked",
  "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 16]}],
  "weights": [{"name": "w", "dtype": "float32", "shape": [4, 16]}],
  "setup": [
    {"aten": "aten::mul.Scalar", "args": {"self": "w", "other": 2.0}, "out": ["doubled"]},
    {"aten": "aten::transpose.int", "args": {"self": "doubled", "dim0": 0, "dim1": 1}, "out": ["wt"]}],
  "steps": [
    {"aten": "aten::mm", "args": {"self": "x", "mat2": "wt"}, "out": ["h"], "precision": "tf32"},
    {"alloc": "y", "dtype": "float32", "shape": [8, 4]},
    {"launch": "shift", "grid": [1], "block": [32], "args": [{"in": "h"}, {"out": "y"}, {"f32": 0.1}, {"i64": 32}]}],
  "outputs": ["y"],
  "execution": {"graph": true, "lanes": 2} }
---
__global__ void __launch_bounds__(32) shift(const float* h, float* y, float by, long long n) {
  if (threadIdx.x < n) y[threadIdx.x] = h[threadIdx.x] + by;
}
)";

}  // namespace cudal1
