// Convolutions in float32 where a GPU's library would compute them in TF32.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1 {

// The steps that with_float32_convolutions() may take: convolutions of float32 without a precision.
std::vector<int> convolutions_without_precision(const checked_program& p);

// The task with precision float32 at these steps, some of convolutions_without_precision. Where the library computes
// the task's own convolution in float32, but in TF32 what it was rewritten to, only that is as exact as the task.
expected<std::shared_ptr<const task>> with_float32_convolutions(const task& t, std::span<const int> steps);

}  // namespace cudal1
