// Before a search: the tasks that no call of their model was compared with are compared on a device of the search.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/messages/baseline_times.hpp"
#include "sandbox/device/session.hpp"
#include "sandbox/program/task.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/progress.hpp"

namespace cudal1::cli {

enum class uncompared_tasks { left_out, searched };

class first_comparison {
 public:
  // With `wake_fd` (of interrupt_watch) a comparison ends with errc::cancelled once that is readable.
  first_comparison(uncompared_tasks others, int wake_fd) : others_(others), wake_fd_(wake_fd) {}

  // Compares those that are marked, and that the store does not know as compared, on the first of the devices that can;
  // removes the marks of those that agree. A device of this machine is used by this process; one of another machine, or
  // of a coordinator elsewhere, by its own, where its settings allow that (cluster.run_models, run_client_models); the
  // coordinator then stores that they agree. The others are left out of `tasks` or searched with their marks, and
  // noted; one that computes something else than its model is always left out. errc::refused if none is left. A module
  // whose whole model has been compared needs no comparison.
  expected<void> compare(std::vector<task>& tasks, const std::vector<device_report>& devices, const context& c,
                         run_view& view);

 private:
  // "" once it is known that the task computes what its model does. errc::refused if it computes something else.
  expected<std::string> why_uncompared(const task& t, const std::vector<device_report>& devices, const context& c,
                                       run_view& view);
  // Nothing if the coordinator knows that the task agrees.
  expected<std::optional<task_comparison>> compare_on(const std::string& device, const task& t, const context& c,
                                                      run_view& view);
  expected<void> judge(const task_comparison& found, const std::string& device, const task& t, run_view& view);

  uncompared_tasks others_;
  int wake_fd_;
  std::set<std::string> compared_;      // sources of whole models
  std::set<std::string> used_devices_;  // of this machine
};

}  // namespace cudal1::cli
