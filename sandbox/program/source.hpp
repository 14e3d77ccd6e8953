// The CUDA C++ source of a program: what may stand in it, and which kernels it defines. No preprocessor is run; a
// compiler has the last word.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

struct kernel_parameter {
  std::string text;  // "const float* __restrict__ a", blanks made single
  std::string type;  // "const float*"; "" where it cannot be told
  bool is_pointer = false;
};

struct kernel_signature {
  std::string name;
  std::vector<kernel_parameter> parameters;
};

// Legal characters, and no preprocessor line but #define, #undef, #if and their kin, and #pragma unroll; nothing that
// looks for files; no redefinition of names that begin with two underscores. Where the program names sets of `headers`,
// `#include <cub/cub.cuh>` too, by a plain relative path. Refuses what would make this reading differ from a
// compiler's: raw strings, trigraphs, digraphs of #, universal character names, blanks after a continuation. Errors
// name the line.
expected<void> check_source(std::string_view source, std::span<const std::string> headers = {});

// What a launch can name: each `__global__ void NAME(...)`, with __launch_bounds__(...) on either side of void, in
// order, those in the branches of an #if and in macros too. Errors: check_source's, those of preprocessor lines
// excepted.
expected<std::vector<kernel_signature>> find_kernels(std::string_view source);

}  // namespace cudal1
