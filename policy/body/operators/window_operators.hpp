// Operators of windows in kernels: pools, and convolutions that take each channel alone. Each row is a window, whose
// elements are reduced: to a maximum, an average, or the sum of their products with the channel's weights. Convolutions
// that add up channels are contractions, whose rows and columns are the kernel's.
#pragma once

#include "policy/body/body_builder.hpp"

namespace cudal1 {

// How the step's windows slide; none where it has none.
std::vector<work_parts::window> windows_of(const graph_step& s);

// Null where the step is none.
const row_operator* find_window_operator(const graph_step& s);

// Whether the step is a convolution that adds up channels of its input, all or those of a group, and that no move has
// replaced.
bool adds_up_channels(const graph_step& s);
// Builds such convolutions of float32 or a half type. errc::unsupported with the reason for others.
const operator_builder& convolution_builder();

}  // namespace cudal1
