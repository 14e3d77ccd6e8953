// Whether an imported task computes what its model does, on a device: for tasks that were not compared when they were
// imported, since a CPU is too slow for them or casts otherwise.
#pragma once

#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1::cli {

struct task_comparison {
  std::string differs;             // what does; "" if they agree
  std::string uncompared;          // why they could not be compared; "" if they were
  double rounding = 0;             // the largest difference, over the tensor's largest value; 0: the same bits
  std::vector<std::string> notes;  // on results that no comparison tells anything of
};
BOOST_DESCRIBE_STRUCT(task_comparison, (), (differs, uncompared, rounding, notes))

// Runs tools/python/compare_task.py, unconfined: one call of the task's steps beside two of its model. `blobs`: the
// folder of its weights and source; `device`: one name.
expected<task_comparison> compare_with_model(const task& t, const std::string& blobs, const std::string& device);

}  // namespace cudal1::cli
