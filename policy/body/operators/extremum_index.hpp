// argmax and argmin in a row kernel: the extremum of each row, and then the first of the places where it is. NaN is an
// extremum, as in ATen.
#pragma once

#include "policy/body/body_operators.hpp"

namespace cudal1 {

// The dimensions over which the step searches, one or all, and how many elements they have together.
struct searched_row {
  std::vector<int64_t> dims;
  int64_t columns = 1;
};
expected<searched_row> searched_row_of(const graph& g, const graph_step& s);
// `positions`: a setup value, the numbers 0, 1, ... in float32, as many as a row has elements.
operator_use extremum_index(const graph& g, const graph_step& s, const std::string& positions);
body_operator extremum_index_operator();

}  // namespace cudal1
