// The elements of a view of memory whose neighbouring dimensions are merged, as the phases of a convolution are: its
// first elements, where the result has fewer.
#pragma once

#include "policy/body/body_operators.hpp"
#include "policy/graph/merged_dimensions.hpp"

namespace cudal1 {

operator_use merged_dimensions(const graph& g, const merged_dimensions_proof& of);
body_operator merged_dimensions_operator();

}  // namespace cudal1
