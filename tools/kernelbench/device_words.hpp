// NVRTC has an option that places functions and tables without a specifier on the device; nvcc has no such option.
#pragma once

#include <string>
#include <string_view>

#include "config/base/error.hpp"

namespace cudal1::kernelbench {

// The source with `__device__` before each function, and each table, in the scope of a namespace or a class that has no
// specifier of host, device or memory. Scalar constants stay as they are: both sides know their values. Errors: refused
// (constructs that the scanner does not accept).
expected<std::string> with_device_specifiers(std::string_view source);

}  // namespace cudal1::kernelbench
