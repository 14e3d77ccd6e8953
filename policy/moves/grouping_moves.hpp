// Which steps become one kernel.
#pragma once

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> grouping_moves();

}  // namespace cudal1
