// NVRTC is told to take functions and tables without a word about where they live as the device's; nvcc cannot be told.
#pragma once

#include <string>
#include <string_view>

#include "config/base/error.hpp"

namespace cudal1::kernelbench {

// The source with `__device__` before each function, and each table, of a namespace's or a class's scope that says
// nothing of host, device or memory. Scalar constants stay: both sides know their values. Errors: refused (what hides
// words from this reading).
expected<std::string> with_device_words(std::string_view source);

}  // namespace cudal1::kernelbench
