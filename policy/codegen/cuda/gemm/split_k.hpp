// A product and its epilogue as two bodies.
#pragma once

#include <string>
#include <utility>

#include "policy/body/kernel_body.hpp"

namespace cudal1 {

// Split-K: the first computes the sums of so many parts of k, one tensor behind the other; the second adds them up and
// computes the rest. Names of new values start with `prefix`.
std::pair<kernel_body, kernel_body> split_k(const kernel_body& whole, int64_t parts, const std::string& prefix);

}  // namespace cudal1
