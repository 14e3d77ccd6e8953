// Norms of a convolution's result in two parts: their statistics, which the convolution's kernel can make partial sums
// of, and what they make of each element, which the kernels of what follows can contain.
#pragma once

#include <span>
#include <vector>

#include "policy/graph/graph.hpp"
#include "policy/graph/program_changes.hpp"

namespace cudal1 {

// The steps that with_separate_statistics() may change.
std::vector<int> norms_of_convolutions(const graph& g);

// The graph's task with means, variances and elementwise steps in place of each of these norms: batch norm in training
// mode, instance norm, and group norm with weights. errc::invalid_argument with the reason where a step is none of a
// float32 value that elementwise steps make of a convolution's result.
expected<proved_task> with_separate_statistics(const graph& g, std::span<const int> steps);

}  // namespace cudal1
