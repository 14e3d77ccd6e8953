// PyTorch's own time for each step of a task, one after the other: where the time goes, before anything is searched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1::cli {

struct step_times {
  std::vector<double> step_us;  // medians over the calls; on a GPU with a synchronisation after each step
  int64_t calls = 0;
  std::string torch;
};
BOOST_DESCRIBE_STRUCT(step_times, (), (step_us, calls, torch))

// Runs tools/python/step_times.py, unconfined, for some seconds; the device should be idle. `device`: one name.
expected<step_times> measure_steps(const task& t, const std::string& device, int threads, int wake_fd = -1);

}  // namespace cudal1::cli
