// Algebraic simplifications: legal only with a proof, which is stored with the variant.
#pragma once

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> proof_moves();

}  // namespace cudal1
