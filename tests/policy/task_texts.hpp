// Tasks for these tests: the built-in ones, and small ones of every kind of kernel.
#pragma once

#include <string>
#include <vector>

#include "policy/codegen/lowering_target.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1::test {

const lowering_target& target_named(const std::string& name);
inline const lowering_target& for_cpu() {
  return target_named("cpu");
}
inline const lowering_target& for_cuda() {
  return target_named("cuda");
}

const std::vector<task>& builtin_tasks();
// The same at sizes of a few dozen, which no lane count divides.
const std::vector<task>& shrunk_builtin_tasks();
const task& builtin(const std::string& name);
// Small shapes, awkward sizes: tails, broadcasts, columns apart, single rows.
const std::vector<task>& small_tasks();
// Row kernels of lengths around those of vectors, warps and blocks, and of few long rows.
const std::vector<task>& row_tasks();
const task& small(const std::string& name);
// A residual network: blocks of a product, a bias, a ReLU and the sum with what went in; four steps each.
task residual_network(int blocks);
// Products with a chain of two steps after each, of one element in turn with a softmax; three steps each.
task chained_network(int chains);

}  // namespace cudal1::test
