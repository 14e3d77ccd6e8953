// From a program's source to what the host compiler is given: the device header, the program's declarations in a struct
// whose members know their thread, `__shared__` rewritten, guards versioned, and an entry point a kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

struct source_kernel {
  std::string name;
  bool uses_fibers = false;  // it has barriers, shuffles, votes or shared memory; otherwise it is a plain loop
};

struct kernel_source {
  std::string text;
  std::vector<source_kernel> kernels;
};

// `source` has passed the preprocessor where it needed one. Its errors and the compiler's name lines of the program's
// source, as "program.cu". Errors: unsupported, refused, compile_failed.
expected<kernel_source> assemble_kernel_source(std::string_view source);

// The device header's text (part of the cache key through the assembled text).
std::string_view device_header();

}  // namespace cudal1
