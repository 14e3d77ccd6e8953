// How a program runs, beside its kernels: as one graph.
#pragma once

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> execution_moves();

}  // namespace cudal1
