// The search of the parts of tasks, which comes before that of the tasks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sandbox/evaluation.hpp"
#include "sandbox/program/task.hpp"
#include "store/store.hpp"
#include "tools/cli/command.hpp"

namespace cudal1::cli {

struct parts_to_search {
  std::vector<task> wanted;         // each part once
  int64_t parts = 0, distinct = 0;  // of all tasks
  int64_t known = 0;                // of the distinct ones: measured before in this class of environments
};
// A part is known if it has a result in this class of environments and had as many evaluations as are wanted now, or
// its policy had no more to propose.
expected<parts_to_search> choose_parts(const std::vector<task>& tasks, const environment& where, int64_t evaluations,
                                       const context& c);

}  // namespace cudal1::cli
