// Other ways to compute what a library step computes.
#pragma once

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> implementation_moves();

}  // namespace cudal1
