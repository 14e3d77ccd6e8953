// How long a program would take on a GPU: an estimate from its text and what the writers of its kernels know of them,
// for choosing what is measured first. No score depends on it. estimate_quality says how good it is.
//
//   device time: the sum over its launches and library calls, and a gap before each but the first
//   call time: the longer of that and of what the host takes to launch them, and the overhead of a synchronised call
#pragma once

#include <optional>

#include "config/device_data.hpp"
#include "policy/graph/part_family.hpp"
#include "policy/moves/lowering.hpp"

namespace cudal1 {

struct program_estimate {
  double device_us = 0, call_us = 0;
};

// The time by which variants of the task are compared: a part's on the device, else a call's.
inline double compared_us(const task& of, const program_estimate& e) {
  return compared_by(of) == score_clock::device ? e.device_us : e.call_us;
}

// Takes some microseconds a step. A kernel that `work` does not name is taken for one whose threads share what it reads
// and writes.
program_estimate estimate_of(const checked_program& p, const kernel_works& work, const device_data& gpu);
// The estimate of the program that the schedule makes of a task; nothing if it is not legal, as one of an older version
// may be.
std::optional<program_estimate> estimate_of(const task& t, const schedule& s, const lowering_target& target,
                                            const device_data& gpu);

}  // namespace cudal1
