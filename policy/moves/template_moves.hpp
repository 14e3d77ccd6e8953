// Moves that let a kernel template make the results of a step.
#pragma once

#include <vector>

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> template_moves();

}  // namespace cudal1
