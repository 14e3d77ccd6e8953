// What bounds a task: its unavoidable work, what its own program moves step by step, and the roof of a known device.
#pragma once

#include <cstdint>
#include <optional>

#include <boost/describe.hpp>

#include "sandbox/verify/roofline.hpp"

namespace cudal1 {

struct task_bounds {
  task_work work;                    // the least work of a call: each tensor moved once
  int64_t stepwise_bytes = 0;        // what its own program reads and writes, each step by itself; views are free
  int64_t operators = 0;             // steps of its program that move memory
  int64_t largest_intermediate = 0;  // bytes of the largest value that is no input, weight or output
  std::optional<roofline> roof;      // none where the device's specifications are unknown
  double reference_us = 0;           // call time of the task's own program; 0: not measured yet
};
BOOST_DESCRIBE_STRUCT(task_bounds, (), (work, stepwise_bytes, operators, largest_intermediate, roof, reference_us))

task_bounds bounds_of(const task& t, const std::optional<device_data>& device);

}  // namespace cudal1
