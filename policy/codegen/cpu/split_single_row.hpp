// One row of very many columns with one round of reductions: parts of it, then the parts. So the work spreads, and the
// additions stay few.
#pragma once

#include <optional>
#include <string>

#include "policy/codegen/kernel_body.hpp"

namespace cudal1 {

struct two_phases {
  kernel_body parts, total;
};
// Nothing where the body is no such row. `prefix` begins the names of the values between the two.
std::optional<two_phases> split_single_row(const kernel_body& whole, const std::string& prefix);

}  // namespace cudal1
