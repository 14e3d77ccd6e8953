// Pools over the features of a product: the largest, or the average, of neighbouring columns.
#pragma once

#include <optional>
#include <string>

#include "policy/graph/graph.hpp"

namespace cudal1 {

struct feature_pool {
  std::string product;  // the value whose columns it pools
  int64_t size = 0;     // of a window
};

// Empty where the step does not pool the last dimension of a product of the graph, seen through views that add or
// remove dimensions of size 1, or where its windows overlap, are not full, or have more columns than a kernel has
// products.
std::optional<feature_pool> pool_of_features(const graph& g, const graph_step& s);

// Whether the step is a view that only adds or removes dimensions of size 1.
bool is_unit_view(const graph& g, const graph_step& s);

}  // namespace cudal1
