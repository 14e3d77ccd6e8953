// Tasks for these tests: the built-in ones, and small ones for every kernel form.
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
// The built-in tasks at sizes of at most a few dozen.
const std::vector<task>& shrunk_builtin_tasks();
const task& builtin(const std::string& name);
// Small and odd sizes: tails, broadcasts, strided columns, single rows.
const std::vector<task>& small_tasks();
// Row kernels with lengths close to those of vectors, warps and blocks, and with few long rows.
const std::vector<task>& row_tasks();
const task& small(const std::string& name);
// A residual network: blocks of a product, a bias, a ReLU and the sum with the block's input; four steps each.
task residual_network(int blocks);
// Products, each followed by a bias and alternately a sigmoid or a softmax; three steps each.
task chained_network(int chains);

}  // namespace cudal1::test
