// Tasks for these tests: the built-in ones, and small ones of every kind of kernel.
#pragma once

#include <string>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1::test {

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
