// A stack along a new last dimension that the next step merges with the one before: the parts' elements in turn, as
// rotary embeddings of pairs have them.
#pragma once

#include "policy/body/body_operators.hpp"
#include "policy/graph/proofs.hpp"

namespace cudal1 {

operator_use interleave(const graph& g, const interleave_proof& of);
bool is_interleave(const graph_step& s);
body_operator interleave_operator();

}  // namespace cudal1
