// Where a value begins: memory of its own begins on 512 bytes, a view perhaps in the middle of one.
#pragma once

#include <string>

#include "policy/graph/graph.hpp"

namespace cudal1 {

// Whether the value's first element lies on 16 bytes.
bool starts_aligned(const graph& g, const std::string& value);

}  // namespace cudal1
