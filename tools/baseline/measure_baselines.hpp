// Measures PyTorch and the best variants, for `cudal1 baseline` and `cudal1 run --against`, on several devices at once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "tools/baseline/device_baselines.hpp"

namespace cudal1::cli {

struct measured_baselines {
  std::vector<environment> where;  // of the devices
  std::string torch;               // "" if nothing had to be measured
  std::vector<measured_task> tasks;
  int64_t left = 0;  // tasks not finished when the time limit, an interrupt or a failed device ended it
  bool interrupted = false;
  std::optional<error> fault;  // that ended it
};
BOOST_DESCRIBE_STRUCT(measured_baselines, (), (where, torch, tasks, left, interrupted))

// Called by one thread at a time.
struct baseline_observer {
  std::function<void(const std::string&)> doing;  // before a step: "softmax: eager, graph"
  std::function<void(const measured_task&)> finished;
};

// Each device takes the next task as soon as it is idle. First come the compiled kinds of all tasks, since compilers
// take the host's cores; then the other kinds; then those again that the host was too slow for, since its best pace is
// known by then. errc::refused if an experiment or another client uses one of the devices.
expected<measured_baselines> measure_baselines(const std::string& data, const baseline_plan& plan,
                                               const baseline_observer& observer, int wake_fd);

}  // namespace cudal1::cli
