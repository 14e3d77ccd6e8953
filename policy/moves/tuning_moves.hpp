// Moves that divide a kernel's work: threads, elements, accumulators.
#pragma once

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> tuning_moves();

}  // namespace cudal1
