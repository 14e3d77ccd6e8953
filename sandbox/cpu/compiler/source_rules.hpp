// What a program's source may not contain on the `cpu` device, judged by its tokens before a compiler sees it.
#pragma once

#include <span>
#include <string_view>

#include "config/base/error.hpp"
#include "sandbox/program/scanner.hpp"

namespace cudal1 {

// Errors: unsupported (a CUDA or C++ feature, by name), refused (something that serves only to leave the sandbox, to
// keep state, or to read files or clocks). Each names the line.
expected<void> check_source_words(std::span<const token> tokens);

// True if the compiler's preprocessor must run first: for any directive but `#pragma unroll`.
bool needs_preprocessing(std::span<const token> tokens);

// N of `#pragma unroll N`; 0 without a number, -1 for any other directive.
int unroll_count(std::string_view directive);

}  // namespace cudal1
