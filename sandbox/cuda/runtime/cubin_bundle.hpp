// Several cubins as one object: those of a program whose source was compiled in pieces. No CUDA.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

// A single cubin is its own bundle.
std::string bundle_of(const std::vector<std::string>& cubins);
// Parts of `object`, each at a multiple of 16 bytes from its beginning. Errors: corrupt.
expected<std::vector<std::string_view>> cubins_in(std::string_view object);

}  // namespace cudal1
