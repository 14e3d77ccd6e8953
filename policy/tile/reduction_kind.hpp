// Reductions in C: how one more value is added, and what nothing is.
#pragma once

#include <string>

namespace cudal1 {

enum class reduction_kind { sum, max, min, product };

// The C statement that adds one more value to an accumulator.
std::string accumulate(reduction_kind how, const std::string& accumulator, const std::string& value);
// The C literal of the neutral element.
std::string neutral(reduction_kind how);

}  // namespace cudal1
