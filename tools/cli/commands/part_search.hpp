// The search of the parts of tasks, which comes before that of the tasks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/program/task.hpp"
#include "store/store.hpp"
#include "tools/cli/command.hpp"

namespace cudal1::cli {

struct parts_to_search {
  std::vector<task> wanted;  // each part once: those with a choice of kernels first, of these those with the largest
                             // share of a task's work for the time of an evaluation
  int64_t parts = 0, distinct = 0;  // of all tasks
  int64_t known = 0;                // of the distinct ones: on devices of each model
};
// A part is known on a model if it has a result there in the same class of environments, and had as many evaluations as
// are wanted now, or its policy had no more to propose. A task that can be cut in one way only, into one part, has no
// parts: it is searched anyway.
expected<parts_to_search> choose_parts(const std::vector<task>& tasks, const std::vector<environment>& where,
                                       int64_t evaluations, const context& c);

}  // namespace cudal1::cli
