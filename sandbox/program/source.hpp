// The CUDA C++ source of a program, as text: what may stand in it, and which kernels it defines. No preprocessor is
// run; a compiler has the last word.
#pragma once

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

// The source without comments, with "" for each string and '' for each character literal and with continued lines
// joined: what the rules look at. Refuses what would make this reading differ from a compiler's: raw strings,
// trigraphs, digraphs of #, universal character names, blanks after a continuation.
expected<std::string> strip_source(std::string_view source);

// Legal characters, and no preprocessor line but #define, #undef, #if and their kin, and #pragma unroll; nothing that
// looks for files; no redefinition of names that begin with two underscores. Where the program has asked for headers,
// `#include <cub/cub.cuh>` too, by a plain relative path. Errors name the line.
expected<void> check_source(std::string_view source, bool may_include = false);

// Every `__global__ void NAME(...)`, with __launch_bounds__ where people put it, in order. `stripped` is
// strip_source's.
std::vector<kernel_signature> find_kernels(std::string_view stripped);

}  // namespace cudal1
