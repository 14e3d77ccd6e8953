// Convolutions with what follows as one call of cuDNN's graph API.
#pragma once

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> convolution_graph_moves();

}  // namespace cudal1
