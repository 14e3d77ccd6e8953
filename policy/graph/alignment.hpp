// Alignment of values: allocations are 512-byte aligned, a view may start anywhere inside one.
#pragma once

#include <string>

#include "policy/graph/graph.hpp"

namespace cudal1 {

// Whether the value's first element is 16-byte aligned.
bool starts_aligned(const graph& g, const std::string& value);

}  // namespace cudal1
