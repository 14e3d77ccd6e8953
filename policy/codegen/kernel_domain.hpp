// Which rows and columns a kernel of some steps has.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "policy/graph/graph.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

// Which dimensions of the full shape a step reduces, and how one of them is split in two (group norm).
struct row_domain {
  std::vector<int64_t> shape;    // the full shape, or that of a part
  std::vector<int64_t> reduced;  // ascending dimensions of `shape`
  int64_t split_dim = -1, groups = 1;
  // Where tensors are joined, or a product is cut: of how many equal parts the dimension of the shape `whole` consists;
  // a value of that shape has a node for each. The parts follow each other, or their elements take turns, and then
  // the last elements may be in no part.
  std::vector<int64_t> whole;
  int64_t joined_dim = -1, parts = 1;
  bool interleaved = false;
  // The parts' own shape where `shape` has their last dimension in groups.
  std::vector<int64_t> ungrouped;
  // Where windows slide over the last dimensions of a tensor, of the shape `pooled`: `shape` is that of what they make,
  // followed by the windows', which are reduced.
  std::vector<int64_t> pooled;
  std::vector<work_parts::window> windows;
  bool operator==(const row_domain&) const = default;

  bool covers_whole() const {
    const auto d = static_cast<std::size_t>(joined_dim);
    return parts == 1 || parts * shape[d] == whole[d];
  }
};

// errc::unsupported with the reason where the steps have no domain in common.
expected<row_domain> domain_of(const graph& g, const std::vector<int>& steps);

// The steps among these that make what windows slide over, or a factor of a product.
std::set<int> steps_in_front(const graph& g, const std::vector<int>& steps, const row_domain& domain);

}  // namespace cudal1
