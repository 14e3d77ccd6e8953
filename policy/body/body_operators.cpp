#include "policy/body/body_operators.hpp"

#include <algorithm>
#include <vector>

#include "policy/body/operators/constant_fill.hpp"
#include "policy/body/operators/extremum_index.hpp"
#include "policy/body/operators/interleave.hpp"
#include "policy/body/operators/merged_read.hpp"
#include "policy/body/operators/row_dot.hpp"
#include "policy/body/operators/row_scale.hpp"

namespace cudal1 {

const body_operator* find_body_operator(std::string_view name) {
  static const std::vector<body_operator> all = {row_scale_operator(),      row_dot_operator(),
                                                 interleave_operator(),     constant_fill_operator(),
                                                 extremum_index_operator(), merged_dimensions_operator()};
  const auto found = std::ranges::find(all, name, &body_operator::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace cudal1
