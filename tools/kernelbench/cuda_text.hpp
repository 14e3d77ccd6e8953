// A program's kernels as a source for nvcc, with the same meaning as the source for NVRTC when they were measured.
#pragma once

#include <string>

#include "sandbox/program/check.hpp"

namespace cudal1::kernelbench {

// "" for a program without kernels. Errors: errc::unsupported (it includes headers that no CUDA toolkit has), refused.
expected<std::string> cuda_text(const checked_program& p);

}  // namespace cudal1::kernelbench
