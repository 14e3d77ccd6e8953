// Convolutions whose bias is a step of its own. A GPU's library convolves without it and adds it in another kernel,
// which reads and writes the whole result; as a step, it becomes part of the kernel that follows.
#pragma once

#include <memory>

#include "sandbox/program/task.hpp"

namespace cudal1 {

// The task with a convolution without bias and a sum in place of every convolution with one; null where it has none.
// What the sum gives is rounded as before: the library rounds the convolution's result, too.
std::shared_ptr<const task> with_separate_bias(const task& t);

}  // namespace cudal1
