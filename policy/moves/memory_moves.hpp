// Moves that change where a group's values are stored: its result in place of an operand, and values kept between
// passes.
#pragma once

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> memory_moves();

}  // namespace cudal1
