// Transposed convolutions whose windows move by one element: convolutions with flipped weights.
#pragma once

#include <span>
#include <vector>

#include "policy/graph/graph.hpp"
#include "policy/graph/program_changes.hpp"

namespace cudal1 {

// The steps that with_flipped_weights() may change.
std::vector<int> flippable_convolutions(const graph& g);

// The graph's task with a convolution in place of each of these transposed ones. Its weights are flipped in space, with
// the channels of input and output exchanged, which set-up does. errc::invalid_argument with the reason where a step is
// no such convolution.
expected<proved_task> with_flipped_weights(const graph& g, std::span<const int> steps);

}  // namespace cudal1
