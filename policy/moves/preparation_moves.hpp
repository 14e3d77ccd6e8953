// Moves that go on with another program for the task: its steps, and the order of its tensors in memory.
#pragma once

#include <vector>

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> preparation_moves();

}  // namespace cudal1
