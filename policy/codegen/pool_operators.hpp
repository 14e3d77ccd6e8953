// Pools in kernels: each row is a window, whose elements are reduced to a maximum or an average.
#pragma once

#include "policy/codegen/body_builder.hpp"

namespace cudal1 {

// Whether the step pools windows of a given size.
bool is_pool(const graph_step& s);
const row_operator& pool_builder();

}  // namespace cudal1
