// Transposed convolutions whose windows move by several elements: convolutions with channels for each phase.
//
// With a stride of s, results whose places leave the same remainder by s (a phase) are made with the same weights, from
// neighbouring elements of the input: one convolution with the weights of all phases gives all results. Their order in
// memory is another, [batch, phases, channels, space], and the steps that follow read them as
// [batch, channels, height / s, s, width / s, s].
#pragma once

#include <span>
#include <vector>

#include "policy/graph/graph.hpp"
#include "policy/graph/program_changes.hpp"

namespace cudal1 {

// The steps that with_phased_convolutions() may change.
std::vector<int> phased_convolutions(const graph& g);

// The graph's task with a convolution in place of each of these transposed ones, and with what follows it in the
// divided shape as far as it can be. errc::invalid_argument with the reason where a step is no such convolution.
expected<proved_task> with_phased_convolutions(const graph& g, std::span<const int> steps);

}  // namespace cudal1
