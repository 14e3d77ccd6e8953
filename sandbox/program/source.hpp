// The CUDA C++ source of a program: what it may contain, and which kernels it defines. No preprocessor is run; the
// compiler may still reject a source that passes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

struct kernel_parameter {
  std::string text;  // "const float* __restrict__ a", with single blanks
  std::string type;  // "const float*"; "" where it is not recognised
  bool is_pointer = false;
};

struct kernel_signature {
  std::string name;
  std::vector<kernel_parameter> parameters;
  std::string dynamic_shared;    // the name of the array that its body declares `extern __shared__`; "" without one
  bool calls_grid_sync = false;  // in its body
};

// Checks the source: legal characters; no preprocessor lines other than #define, #undef, #if and the like, and #pragma
// unroll; nothing that searches for files; no redefinition of names that begin with two underscores. Where the program
// names sets of `headers`, #include with a plain relative path is allowed too. Rejects what would make this reading
// differ from a compiler's: raw strings, trigraphs, digraphs of #, universal character names, blanks after a
// continuation. Errors name the line.
expected<void> check_source(std::string_view source, std::span<const std::string> headers = {});

// What a launch can name: each `__global__ void NAME(...)`, with __launch_bounds__(...) and __cluster_dims__(...) on
// either side of void, in order, those in the branches of an #if and in macros too. Errors: those of check_source,
// except for preprocessor lines.
expected<std::vector<kernel_signature>> find_kernels(std::string_view source);

// Whether kernels may use atomic operations, in CUDA C++ or in inline assembly: then the order of their sums varies
// from call to call. Errs on the side of yes.
bool uses_atomics(std::string_view source);
// Whether the word stands before a parenthesis, and so is more than a variable of that name.
bool calls(std::string_view source, std::string_view word);

}  // namespace cudal1
