// Integers that depend on the batch size of a program: found from their values at several sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/json.hpp"

namespace cudal1 {

// (scale * batch + offset) / divisor, rounded down.
struct batch_number {
  int64_t scale = 0, offset = 0, divisor = 1;
  int64_t at(int64_t batch) const { return (scale * batch + offset) / divisor; }
  bool operator==(const batch_number&) const = default;
};

// The function that has these values at these sizes: a linear one; else, of those that divide and round up, the
// steepest, which may be 1 too large at other sizes. None if there is none of that form. At least three different
// positive sizes.
std::optional<batch_number> batch_number_of(std::span<const int64_t> sizes, std::span<const int64_t> values);

// Documents of equal form, one for each size, as one: an integer that depends on the batch is
// {"$batch": [scale, offset, divisor]}, with a divisor only in grids, where a block too many does nothing.
// errc::unsupported with the place of what else differs.
expected<json> joined_by_batch(const std::vector<json>& documents, std::span<const int64_t> sizes);

}  // namespace cudal1
