// Convolutions as kernels of our own, with what follows them.
#pragma once

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> convolution_kernel_moves();

}  // namespace cudal1
