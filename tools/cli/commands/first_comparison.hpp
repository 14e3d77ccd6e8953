// Before a search: the tasks that no call of their model was compared with are compared on the device of the search.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/program/task.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/progress.hpp"

namespace cudal1::cli {

enum class uncompared_tasks { left_out, searched };

class first_comparison {
 public:
  explicit first_comparison(uncompared_tasks others) : others_(others) {}

  // Compares those that are marked, where this machine has the device, and removes the marks of those that agree.
  // The others are left out of `tasks` or searched with their marks, and noted; one that computes something else than
  // its model is always left out. errc::refused if none is left. A module whose whole model has been compared needs no
  // comparison.
  expected<void> compare(std::vector<task>& tasks, const environment& where, const context& c, run_view& view);

 private:
  // errc::refused if the task computes something else.
  expected<std::string> why_uncompared(task& t, const environment& where, const context& c, run_view& view);

  uncompared_tasks others_;
  std::set<std::string> compared_;  // sources of whole models
};

}  // namespace cudal1::cli
