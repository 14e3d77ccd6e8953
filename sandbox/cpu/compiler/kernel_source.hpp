// Turns a program's source into the text that the host compiler gets: the device header, the program's declarations as
// members of a struct with the state of a thread, `__shared__` rewritten, guards versioned, an entry point per kernel.
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

// `source` is already preprocessed, if it needs that. These errors and the compiler's refer to lines of the program's
// source, as "program.cu". Errors: unsupported, refused, compile_failed.
expected<kernel_source> assemble_kernel_source(std::string_view source);

// The device header's text (part of the cache key through the assembled text).
std::string_view device_header();
// The text of a part of the dialect that is in the dialect itself (sandbox/program/dialect.hpp): it stands before the
// source of a program that names one of its functions.
std::string_view functions_in_dialect(std::string_view part);

}  // namespace cudal1
