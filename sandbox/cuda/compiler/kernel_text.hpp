// Turns a program's source into NVRTC's input: the prologue, then the source with its kernels under plain names.
#pragma once

#include <string>
#include <string_view>

#include "config/base/error.hpp"

namespace cudal1 {

// Each declaration of a kernel gets `extern "C"`, so that the cubin has it under its own name; templates stay as they
// are. Line numbers stay the same. Errors: refused (constructs that the scanner does not accept).
expected<std::string> cuda_kernel_text(std::string_view source);

}  // namespace cudal1
