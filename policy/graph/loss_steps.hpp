// Losses of rows as two steps. A triplet or cosine embedding loss that is averaged or summed is one step of a task, but
// two reductions, one after the other: of each row, and of the results. Its graph has both, as ATen's operator does, so
// that a kernel can take the rows with what surrounds them, and another one the results.
#pragma once

#include <memory>

#include "sandbox/program/task.hpp"

namespace cudal1 {

// The task with the loss of each row (reduction 0) and its mean or sum in place of every such loss; null where it has
// none.
std::shared_ptr<const task> with_loss_steps(const task& t);

}  // namespace cudal1
