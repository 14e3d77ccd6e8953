// Convolutions of whose results only means are read: the mean first. Windows of an average pool become windows of the
// convolution, whose weights set-up composes; the mean over all of space needs sums of the input only, and that over
// channels one channel.
#pragma once

#include <span>
#include <vector>

#include "policy/graph/graph.hpp"
#include "policy/graph/program_changes.hpp"

namespace cudal1 {

// The steps, average pools and means, that with_composed_convolutions() may compute in another way.
std::vector<int> composable_means(const graph& g);

// The graph's task in which these means read no result of a convolution. What scales and shifts channels between the
// convolution and the mean comes after it. errc::invalid_argument with the reason where a step is no such mean.
expected<proved_task> with_composed_convolutions(const graph& g, std::span<const int> steps);

}  // namespace cudal1
