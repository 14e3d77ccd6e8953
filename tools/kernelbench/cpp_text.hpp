// A program as one C++ source: its ATen steps as calls of ATen's functions, its launches, its setup, and code to run
// them (step by step, on lanes, as one re-bound CUDA graph). It compiles with torch.utils.cpp_extension and needs only
// PyTorch.
#pragma once

#include <string>
#include <vector>

#include "sandbox/program/check.hpp"

namespace cudal1::kernelbench {

// The kernels that the program launches, setup first, each once: the table that cuda_text writes.
std::vector<std::string> kernels_of(const checked_program& p);

// True if it needs CUDA's headers and libraries: it launches kernels, or requests a graph or lanes.
bool needs_cuda(const checked_program& p);
// Whether it names engines of cuDNN by number.
bool calls_own_operators(const checked_program& p);

// `name`: for messages of the running program.
std::string cpp_text(const checked_program& p, const std::string& name);

}  // namespace cudal1::kernelbench
