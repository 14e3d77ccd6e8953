// Where a group's values are kept: its result in place of an operand, and what passes keep for later ones.
#pragma once

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> memory_moves();

}  // namespace cudal1
