// A program as one C++ source: its ATen steps as calls of ATen's functions, its launches, its setup, and what runs them
// (step by step, on lanes, as one re-bound CUDA graph). It compiles with torch.utils.cpp_extension, and needs PyTorch
// alone.
#pragma once

#include <string>
#include <vector>

#include "sandbox/program/check.hpp"

namespace cudal1::kernelbench {

// The kernels that the program launches, setup first, each once: what cuda_text makes a table of.
std::vector<std::string> kernels_of(const checked_program& p);

// Whether it needs CUDA's headers and libraries: it launches kernels, or asks for a graph or for lanes.
bool needs_cuda(const checked_program& p);

// `name`: for messages of the running program.
std::string cpp_text(const checked_program& p, const std::string& name);

}  // namespace cudal1::kernelbench
