// Compiles with the real NVRTC in its real processes. No GPU is needed.
#pragma once

#include <string>
#include <vector>

#include "sandbox/cuda/compiler/nvrtc_compiler.hpp"

namespace cudal1::test {

// One compiler for each architecture, without a cache; the same for all tests.
nvrtc_compiler& compiler_for(const std::string& architecture = "sm_90a");

// A program that has only a source, unchecked, so that it may be hostile.
checked_program program_of(std::string source, std::vector<std::string> headers = {});

expected<compiled_code> compile(const std::string& source, const std::string& architecture = "sm_90a");

// compile() must fail.
error compile_error(const std::string& source);

// A kernel with this body, and `float* y, int n`.
std::string in_kernel(const std::string& body);

// The names of the functions that the cubin exports: of each section ".text.NAME".
std::vector<std::string> kernels_in(const std::string& cubin);

nvrtc_compiler_options limited(double time_s, int64_t memory_bytes);

}  // namespace cudal1::test
