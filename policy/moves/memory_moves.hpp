// Moves that change where a group's values are stored: its result in place of an operand, and values kept between
// passes.
#pragma once

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> memory_moves();

// Whether each group that writes in place still may: a step that is dropped or replaced can give its operand another
// reader, or make another value of it.
expected<void> check_overwritten(const graph& g);

}  // namespace cudal1
