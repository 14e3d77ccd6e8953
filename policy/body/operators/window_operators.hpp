// Operators of windows in kernels: pools, and convolutions that take each channel alone. Each row is a window, whose
// elements are reduced: to a maximum, an average, or the sum of their products with the channel's weights.
#pragma once

#include "policy/body/body_builder.hpp"

namespace cudal1 {

// How the step's windows slide; none where it has none.
std::vector<work_parts::window> windows_of(const graph_step& s);

// Null where the step is none.
const row_operator* find_window_operator(const graph_step& s);

}  // namespace cudal1
