// The heads of programs of one task as patterns of bytes.
#pragma once

#include <optional>
#include <string_view>

#include "policy/model/constraint/byte_pattern.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// This JSON, with blanks and line breaks around its brackets, commas and colons as a writer likes.
byte_pattern json_pattern(std::string_view compact);

struct head_patterns {
  byte_pattern with_kernels;                 // outputs are allocated; the last step is a launch
  std::optional<byte_pattern> of_operators;  // without launches, of tasks with one output
};
// Each with the line break after it.
head_patterns program_head(const task& t);

}  // namespace cudal1
