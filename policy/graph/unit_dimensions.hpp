// Convolutions whose kernels have one element along a dimension in space: convolutions over fewer dimensions.
#pragma once

#include <span>
#include <vector>

#include "policy/graph/graph.hpp"
#include "policy/graph/program_changes.hpp"

namespace cudal1 {

// The steps that without_unit_dimensions() may change.
std::vector<int> convolutions_with_unit_dimensions(const graph& g);

// The graph's task in which these convolutions have two dimensions in space in place of three, or one in place of two
// where their inputs have one element along the other: that dimension is left out, or one with the dimension before it,
// or with the batch. All of these are views of the same memory. errc::invalid_argument with the reason where a step has
// no such dimension.
expected<proved_task> without_unit_dimensions(const graph& g, std::span<const int> steps);

}  // namespace cudal1
