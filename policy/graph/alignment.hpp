// Where values begin in memory: allocations are 512-byte aligned, a view may start anywhere inside one.
#pragma once

#include <string>

#include "policy/graph/graph.hpp"

namespace cudal1 {

// Whether the value's first element is 16-byte aligned.
bool starts_aligned(const graph& g, const std::string& value);

// The value whose memory this one is, read in another order: the operand of the views that produced it, as far as these
// keep the start address and the type. Other values are their own.
std::string seen_through_views(const graph& g, const std::string& value);

}  // namespace cudal1
