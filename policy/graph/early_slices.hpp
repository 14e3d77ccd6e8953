// Slices of converted tensors as conversions of slices. `logits.float()[:, :-1]` converts what nothing reads, and keeps
// the conversion from the kernel that reads the slice; a graph has the slice first.
#pragma once

#include <memory>

#include "sandbox/program/task.hpp"

namespace cudal1 {

// The task with each slice of a half type's conversion, which only the slice reads, before that conversion; the steps'
// numbers stay. Null where it has none.
std::shared_ptr<const task> with_early_slices(const task& t);

}  // namespace cudal1
