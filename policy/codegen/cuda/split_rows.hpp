// Few rows with long columns on a device of many processors: the rounds of reductions as kernels of their own.
#pragma once

#include <string>
#include <vector>

#include "policy/codegen/kernel_body.hpp"

namespace cudal1 {

// A row kernel of few rows with long columns, as kernels that spread over the whole device: parts of each row are
// reduced side by side, then the parts together, then what is left. Empty where one kernel does as well.
std::vector<kernel_body> split_rows(const kernel_body& whole, const std::string& prefix);

}  // namespace cudal1
