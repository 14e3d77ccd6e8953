// The floor: how fast a task could be on a device, by its memory and its arithmetic. An estimate for people, from the
// best that was measured (device_data.reached_*), and no bound: see task_work for what is one.
//
//   device time: the larger of bytes / bandwidth and FLOPs / rates     "the roof"
//   call time: that and what a synchronised call costs                 "the floor" of a table that shows call times
//
// A float32 product may run as float32, or as three products in TF32 on split operands (3xTF32), whichever is faster.
#pragma once

#include <optional>
#include <span>

#include <boost/describe.hpp>

#include "config/device_data.hpp"
#include "sandbox/program/operators/work.hpp"

namespace cudal1 {

struct roofline {
  std::string device;  // name of the data that it is made from
  double memory_us = 0, compute_us = 0;
  double overhead_us = 0;  // of a synchronised call
  bool measured = false;   // the device's figures; else they are from its datasheet
  double device_us() const { return memory_us > compute_us ? memory_us : compute_us; }
  double call_us() const { return device_us() + overhead_us; }
  const char* limit() const { return memory_us >= compute_us ? "memory" : "compute"; }
};
BOOST_DESCRIBE_STRUCT(roofline, (), (device, memory_us, compute_us, overhead_us, measured))

roofline roof_of(const task_work& work, const device_data& device);

// Call times of one task.
struct gap_times {
  double reference_us = 0, best_us = 0, floor_us = 0;
};

// The log gap is the sum over tasks of log(reference / floor); this is the share of it that the best close: 0 is the
// reference, 1 the floor. Tasks count of which all is known and whose reference is above the floor; nothing without
// one.
std::optional<double> share_of_log_gap(std::span<const gap_times> tasks);

}  // namespace cudal1
