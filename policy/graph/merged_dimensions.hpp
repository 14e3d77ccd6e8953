// Copies of views that merge neighbouring dimensions of another copy: the elements can be read from where that one
// does.
#pragma once

#include <string>
#include <vector>

#include "policy/graph/graph.hpp"

namespace cudal1 {

// The step copies the first elements of each dimension of a view that merges neighbouring dimensions of a copy, which
// nothing else reads, of a view of memory.
struct merged_dimensions_proof {
  std::string view;            // of memory, with all dimensions
  std::vector<int64_t> parts;  // how many of them each dimension of the result consists of, one or two
  std::vector<int> left_out;   // the steps between, from that copy on
  std::string certificate;
};
expected<merged_dimensions_proof> prove_merged_dimensions(const graph& g, const graph_step& s);

}  // namespace cudal1
