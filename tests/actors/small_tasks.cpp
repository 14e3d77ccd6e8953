#include "tests/actors/small_tasks.hpp"

#include <stdexcept>

namespace cudal1 {

namespace {

task read_or_die(const char* text) {
  auto t = read_task(text, "cpu");
  if (!t) throw std::runtime_error(t.error().message);
  return std::move(*t);
}

}  // namespace

task relu_chain_task() {
  return read_or_die(R"({"format": 1, "name": "small_relu_chain", "summary": "s", "family": "pointwise",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 256]}],
    "steps": [{"aten": "aten::relu", "args": {"self": "x"}, "out": ["r"]},
              {"aten": "aten::mul.Scalar", "args": {"self": "r", "other": 0.5}, "out": ["m"]},
              {"aten": "aten::abs", "args": {"self": "m"}, "out": ["a"]},
              {"aten": "aten::mul.Scalar", "args": {"self": "a", "other": 3.0}, "out": ["y"]}], "outputs": ["y"]})");
}

task diagonal_task() {
  return read_or_die(R"({"format": 1, "name": "small_diagonal", "summary": "s", "family": "matmul",
    "inputs": [{"name": "a", "dtype": "float32", "shape": [128, 128], "facts": ["diagonal"]},
               {"name": "b", "dtype": "float32", "shape": [128, 128]}],
    "steps": [{"aten": "aten::mm", "args": {"self": "a", "mat2": "b"}, "out": ["y"]}], "outputs": ["y"]})");
}

std::string pointwise_program(const std::string& body) {
  return R"({"format": 1, "name": "by_hand",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 256]}], "weights": [],
    "steps": [{"alloc": "y", "dtype": "float32", "shape": [64, 256]},
              {"launch": "f", "grid": [64, 1, 1], "block": [256, 1, 1],
               "args": [{"in": "x"}, {"out": "y"}, {"i32": 16384}]}],
    "outputs": ["y"]}
---
__global__ void f(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = )" +
         body + ";\n}\n";
}

}  // namespace cudal1
