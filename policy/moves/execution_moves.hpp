// Moves that change how a program runs rather than its kernels: as one CUDA graph.
#pragma once

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> execution_moves();

}  // namespace cudal1
