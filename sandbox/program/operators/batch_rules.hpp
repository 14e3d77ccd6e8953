// Which steps compute each element of a batch by itself: along which dimension of a result the batch lies, given where
// it lies in the operands. A rule says so only where no element of the result depends on another element of the batch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/program/check.hpp"

namespace cudal1 {

// A dimension of outer * batch * inner elements: element (o, b, i) of it belongs to element b of the batch.
struct batch_place {
  std::size_t dim = 0;
  int64_t outer = 1, inner = 1;
  bool operator==(const batch_place&) const = default;
};

struct batched_step {
  std::vector<batch_place> results;
  // Operands that do not depend on the batch, but of which its elements read different parts.
  std::map<std::string, batch_place> read_in_parts;
};

// `places`: of the operands that depend on the batch, at least one. errc::unsupported if the step mixes elements of the
// batch, or may do so.
expected<batched_step> batch_of_step(const aten_step& s, const operator_call& call,
                                     const std::vector<operator_result>& results,
                                     const std::map<std::string, batch_place>& places, int64_t batch);

// Whether the step only gives its first operand another shape, with all elements in the same row-major order.
bool is_reshape(const operator_call& call);

}  // namespace cudal1
