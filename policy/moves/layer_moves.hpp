// Linear layers and convolutions that do what the steps around them do, with other weights, which set-up computes in
// float64 and rounds once. Legal only with a proof, which is stored with the variant.
#pragma once

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

std::vector<move_kind> layer_moves();

}  // namespace cudal1
