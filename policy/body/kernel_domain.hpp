// Which rows and columns a kernel of some steps has, and of which equal parts its values consist.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policy/graph/graph.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

// Which dimensions of the full shape a step reduces, and how one of them is split in two (group norm).
struct row_domain {
  std::vector<int64_t> shape;    // the full shape; of windows, that of what they make
  std::vector<int64_t> reduced;  // ascending dimensions of `shape`
  int64_t split_dim = -1, groups = 1;
  // Where windows slide over the last dimensions of a tensor of the shape `slid`; their elements are what is reduced.
  std::vector<int64_t> slid;
  std::vector<work_parts::window> windows;
  bool operator==(const row_domain&) const = default;
};

// Where tensors are joined, or a product is cut: a dimension of the shape `whole` consists of `count` equal parts. They
// follow each other, or their elements take turns, and then the last elements may be in no part.
struct joined_parts {
  std::vector<int64_t> whole, part;
  int64_t dim = -1, count = 1;
  bool interleaved = false;
  // The parts' own shape where `part` has their last dimension in groups.
  std::vector<int64_t> ungrouped;
  bool operator==(const joined_parts&) const = default;

  bool covers_whole() const {
    const auto d = static_cast<std::size_t>(dim);
    return count * part[d] == whole[d];
  }
};

struct kernel_domain {
  row_domain rows;  // of a part where there are parts
  std::optional<joined_parts> parts;
};

// errc::unsupported with the reason where the steps have no domain in common.
expected<kernel_domain> domain_of(const graph& g, const std::vector<int>& steps);

}  // namespace cudal1
