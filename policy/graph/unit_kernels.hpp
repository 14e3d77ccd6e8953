// Convolutions whose kernels have one element: products of matrices.
#pragma once

#include <span>
#include <vector>

#include "policy/graph/graph.hpp"
#include "policy/graph/program_changes.hpp"

namespace cudal1 {

// The steps that with_unit_kernels_multiplied() may change.
std::vector<int> convolutions_with_unit_kernels(const graph& g);

// The graph's task with a product in place of each of these convolutions. Where the channels are last in memory, it is
// a linear layer of a row of channels for each place; else the weights times the channels of each sample. Where windows
// move by several elements, only the elements that they meet are read. errc::invalid_argument with the reason where a
// step is no such convolution.
expected<proved_task> with_unit_kernels_multiplied(const graph& g, std::span<const int> steps);

}  // namespace cudal1
