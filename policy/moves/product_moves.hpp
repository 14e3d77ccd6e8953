// Products of matrices as kernels of our own, with a prologue and an epilogue.
#pragma once

#include <vector>

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> product_moves();

}  // namespace cudal1
