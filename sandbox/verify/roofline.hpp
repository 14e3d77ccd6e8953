// The floor: how fast a task could run on a device, from its memory traffic and arithmetic. An estimate for users from
// the highest measured rates (device_data.reached_*), not a bound: task_work has a bound.
//
//   device time: the larger of bytes / bandwidth and FLOPs / rates     "the roof"
//   call time: device time + the overhead of a synchronised call       "the floor" of a table that shows call times
//
// A float32 product may run as float32 or as three products of split operands (TF32 parts, or scaled halves), whichever
// is the fastest.
#pragma once

#include <optional>
#include <span>

#include <boost/describe.hpp>

#include "config/device_data.hpp"
#include "sandbox/program/operators/work.hpp"

namespace cudal1 {

struct roofline {
  std::string device;  // name of the device_data used
  double memory_us = 0, compute_us = 0;
  double overhead_us = 0;  // of a synchronised call
  bool measured = false;   // the device's rates were measured; else they are from its datasheet
  double device_us() const { return memory_us > compute_us ? memory_us : compute_us; }
  double call_us() const { return device_us() + overhead_us; }
  const char* limit() const { return memory_us >= compute_us ? "memory" : "compute"; }
};
BOOST_DESCRIBE_STRUCT(roofline, (), (device, memory_us, compute_us, overhead_us, measured))

roofline roofline_of(const task_work& work, const device_data& device);

// Call times of one task.
struct gap_times {
  double reference_us = 0, best_us = 0, floor_us = 0;
};

// The log gap is the sum over tasks of log(reference / floor). This is the share of it that the best variants close: 0
// is the reference, 1 the floor. Only tasks with all three times known and a reference above the floor count; nothing
// if there is none.
std::optional<double> share_of_log_gap(std::span<const gap_times> tasks);

}  // namespace cudal1
