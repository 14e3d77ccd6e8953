// Whether a program computes what a task asks for, as far as its declarations tell.
#pragma once

#include "config/base/error.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// A variant has the task's inputs and weights, with their names and in their order, and its outputs in their order,
// under any names, with the same dtypes and shapes. errc::invalid_program; the message says what to write.
expected<void> check_fits(const task& t, const checked_program& p);

// Declarations as a program writes them, for messages and prompts: `[{"name": "x", "dtype": "float32", "shape": [4]}]`.
std::string declarations_text(const std::vector<tensor_declaration>& declarations);

}  // namespace cudal1
