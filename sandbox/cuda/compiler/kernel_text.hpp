// From a program's source to what NVRTC is given: the prologue, then the source with its kernels under plain names.
#pragma once

#include <string>
#include <string_view>

#include "config/base/error.hpp"

namespace cudal1 {

// Each declaration of a kernel gets `extern "C"`, so that the cubin has it by its name; templates stay as they are.
// Line numbers stay. Errors: refused (what hides words from this reading).
expected<std::string> cuda_kernel_text(std::string_view source);

// What the dialect has and NVRTC has not.
std::string_view cuda_prologue();
std::string_view cuda_prologue_of_atomics();

}  // namespace cudal1
