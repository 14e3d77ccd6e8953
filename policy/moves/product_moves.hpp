// Products of matrices as kernels of our own, with what follows them.
#pragma once

#include <vector>

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> product_moves();

}  // namespace cudal1
