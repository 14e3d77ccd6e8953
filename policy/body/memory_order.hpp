// Tensors whose dimensions lie in another order in memory than in their shape.
#pragma once

#include <string>
#include <vector>

#include "sandbox/program/program.hpp"

namespace cudal1 {

// The dimensions from the largest stride to the smallest.
std::vector<int64_t> memory_order(const tensor_type& t);
tensor_type permuted(const tensor_type& t, const std::vector<int64_t>& order);
// Whether it is a contiguous tensor with its dimensions in some order.
bool is_dense(const tensor_type& t);
// The step that makes `name`, whose dimensions lie in that order in `memory`, a contiguous tensor.
aten_step ordered_back(const std::string& memory, const std::vector<int64_t>& order, std::string name);

}  // namespace cudal1
