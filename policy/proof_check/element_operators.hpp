// How operators compute an element, by PyTorch's documentation. One file for each family.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "policy/proof_check/element_values.hpp"

namespace cudal1 {

using element_rules = std::vector<std::pair<std::string_view, element_rule>>;

element_rules elementwise_rules();
element_rules moving_rules();  // views, copies, rearrangements, joins and constants
element_rules row_rules();     // reductions, softmax and norms
element_rules product_rules();

// Null where there is none. `op`: the name of an operator's record, or of an internal operator.
element_rule find_element_rule(std::string_view op);

// GELU by its tanh approximation.
double gelu_by_tanh(double x);
// A dimension that may be counted from the end, as a number below `dims`.
std::size_t dimension_of(int64_t dim, std::size_t dims);
// A place in one dimension.
place place_at(int64_t index);
// The place of the element that is broadcast to `p`.
place broadcast_place(const place& p, const std::vector<int64_t>& shape);
// Calls `visit` with each place that differs from `p` in these dimensions only.
template <typename F>
void for_each_along(place p, const std::vector<std::size_t>& dims, const std::vector<int64_t>& shape, const F& visit) {
  for (const std::size_t d : dims)
    p[d] = 0;
  int64_t count = 1;
  for (const std::size_t d : dims)
    count *= shape[d];
  for (int64_t n = 0; n < count; ++n) {
    visit(p);
    for (std::size_t i = dims.size(); i-- > 0;) {
      if (++p[dims[i]] < shape[dims[i]]) break;
      p[dims[i]] = 0;
    }
  }
}

}  // namespace cudal1
