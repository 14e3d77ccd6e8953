// Splits kernels with few long rows, so that they use all multiprocessors of a GPU.
#pragma once

#include <string>
#include <vector>

#include "policy/body/kernel_body.hpp"

namespace cudal1 {

// A row kernel of few long rows as several kernels: the first reduces parts of each row in parallel, the second
// combines the partial results, later ones compute the rest. Empty where one kernel is as good. Names of new values
// start with `prefix`.
std::vector<kernel_body> split_rows(const kernel_body& whole, const std::string& prefix);

}  // namespace cudal1
