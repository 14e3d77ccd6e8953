// What the code of a constrained answer of the form `tile` may be, as a pattern of bytes.
#pragma once

#include <optional>

#include "policy/model/constraint/byte_pattern.hpp"
#include "policy/prompt/tile_frame.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// To the end of its fence: a frame of the task with a body of statements that always compile (expressions are free
// within the names that are in scope), or launches and free source whose kernels have tensors as parameters and call a
// function of the vocabulary.
byte_pattern tile_pattern(const task& t);
// The first line and the body of a frame.
byte_pattern body_pattern(const tile_frame& frame);

}  // namespace cudal1
