// Which imported tasks are known to compute what their models do.
#pragma once

#include "config/base/error.hpp"
#include "sandbox/program/task.hpp"
#include "store/store.hpp"

namespace cudal1 {

// Whether the store has this task, imported from the same source, as one that was compared with its model. The file
// that a task is read from keeps its mark.
expected<bool> was_compared(store& s, const task& t);

}  // namespace cudal1
