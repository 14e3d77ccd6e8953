// A product with a diagonal matrix, as scaling: out[i, j] = diagonal[i or j] * matrix[i, j].
#pragma once

#include "policy/body/body_operators.hpp"
#include "policy/graph/proofs.hpp"

namespace cudal1 {

operator_use row_scale(const graph& g, const diagonal_proof& of);
body_operator row_scale_operator();

}  // namespace cudal1
