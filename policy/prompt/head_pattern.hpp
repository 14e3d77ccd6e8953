// The heads of programs of one task as patterns of bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model/constraint/byte_pattern.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// This JSON, with blanks and line breaks around its brackets, commas and colons as a writer likes.
byte_pattern json_pattern(std::string_view compact);

// Each with the line break after it.
// Outputs are allocated, and the last step is a launch. Only these kernels are launched.
byte_pattern head_with_kernels(const task& t, const std::vector<std::string>& kernels);
// Without launches; none for tasks with several outputs.
std::optional<byte_pattern> head_of_operators(const task& t);

}  // namespace cudal1
