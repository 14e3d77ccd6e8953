// Splits one very long row with one level of reductions in two phases: parts of the row are reduced, then the partial
// results. This spreads the work and limits the number of additions into one accumulator.
#pragma once

#include <optional>
#include <string>

#include "policy/body/kernel_body.hpp"

namespace cudal1 {

struct two_phases {
  kernel_body parts, total;
};
// Empty where the body is not such a row. The names of the partial results start with `prefix`.
std::optional<two_phases> split_single_row(const kernel_body& whole, const std::string& prefix);

}  // namespace cudal1
