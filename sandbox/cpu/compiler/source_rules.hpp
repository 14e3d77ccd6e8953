// What a program's source may not contain on the `cpu` device, told from its words, before any compiler sees it.
#pragma once

#include <span>
#include <string_view>

#include "config/base/error.hpp"
#include "sandbox/program/scanner.hpp"

namespace cudal1 {

// Errors: unsupported (a CUDA or C++ feature, by name), refused (something that only serves to leave the sandbox, to
// make state or to read files and clocks). Each names the line.
expected<void> check_source_words(std::span<const token> tokens);

// True where the compiler's preprocessor must run first: any directive but `#pragma unroll`.
bool needs_preprocessing(std::span<const token> tokens);

// The number of `#pragma unroll N`; 0 for no number, -1 where the directive is another one.
int unroll_count(std::string_view directive);

}  // namespace cudal1
