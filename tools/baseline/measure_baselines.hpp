// Measuring PyTorch beside the best variants, for `cudal1 baseline` and `cudal1 run --against`, on several devices at
// once.
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
  std::string torch;               // "" where nothing had to be measured
  std::vector<measured_task> tasks;
  int64_t left = 0;  // not done with when the time was up, somebody interrupted or a device failed
  bool interrupted = false;
  std::optional<error> fault;  // that ended it
};
BOOST_DESCRIBE_STRUCT(measured_baselines, (), (where, torch, tasks, left, interrupted))

// Called by one thread at a time.
struct baseline_observer {
  std::function<void(const std::string&)> doing;  // "softmax: eager, graph", before it
  std::function<void(const measured_task&)> finished;
};

// Each device takes the next task as soon as it has nothing to do. First what is compiled, of all tasks, since
// compilers take the host's cores; then the other kinds; then once more those of them that the host was too slow for,
// whose best pace is known by then. errc::refused where an experiment or another client uses one of the devices.
expected<measured_baselines> measure_baselines(const std::string& data, const baseline_plan& plan,
                                               const baseline_observer& observer, int wake_fd);

}  // namespace cudal1::cli
