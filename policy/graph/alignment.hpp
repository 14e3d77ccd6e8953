// Where values begin in memory: allocations are 512-byte aligned, a view may start anywhere inside one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "policy/graph/graph.hpp"

namespace cudal1 {

// Whether the value's first element is 16-byte aligned.
bool starts_aligned(const graph& g, const std::string& value);

// Where a slice begins in the value that it is a view of.
struct slice_place {
  int64_t dim = 0, first = 0;
};
// The place of that result of the step: a slice of neighbours, or one of the views that chunk, split or unbind make.
// Empty for other steps.
std::optional<slice_place> place_of_slice(const graph& g, const graph_step& s, std::size_t result);

// The value whose memory this one is, read in another order: the operand of the views that produced it, as far as these
// keep the start address and the type. Other values are their own.
std::string seen_through_views(const graph& g, const std::string& value);

}  // namespace cudal1
