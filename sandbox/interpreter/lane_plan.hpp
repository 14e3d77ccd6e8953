// Which steps of a program may overlap: a lane for each step, and the steps of other lanes for which it must wait.
// Independent of LibTorch and CUDA: a lane_driver maps lanes to streams and events.
#pragma once

#include <vector>

#include "sandbox/program/check.hpp"

namespace cudal1 {

inline constexpr int no_lane = -1;
inline constexpr int no_event = -1;

struct laned_step {
  int lane = no_lane;      // no_lane: it enqueues no work on the device (a view), and runs in the current lane
  std::vector<int> waits;  // events of steps in other lanes that must end before it begins
  int event = no_event;    // to record after it, if another lane waits for it
};

struct lane_plan {
  std::vector<laned_step> steps;  // one for each step of the program, without setup, which uses one stream
  int lanes = 1;                  // number of lanes with work
  int events = 0;
};

// Greedy list scheduling in the program's order, on at most `how.lanes` lanes: a step continues the lane of its latest
// operand if that is the lane's last step, else it uses an idle or a new lane. The order within lanes and the waits
// preserve the order of every two steps of which one writes memory that the other reads or writes, views included.
// Memory must not be reused within the call: the plan does not say when the last reader of a value has ended.
lane_plan plan_lanes(const checked_program& p);

// Runs a plan's lanes. Not thread-safe.
class lane_driver {
 public:
  virtual ~lane_driver() = default;
  // Creates streams and events. Call it once, before the first call.
  virtual expected<void> prepare(int lanes, int events) = 0;

  // Begins a call: lane 0 is the caller's stream, and the other lanes start after the work already enqueued there.
  // Until join(), released memory is not reused: another lane may still use it.
  virtual expected<void> begin() = 0;
  virtual expected<void> enter(int lane) = 0;    // makes it the current lane, to which new work is enqueued
  virtual expected<void> wait(int event) = 0;    // the current lane waits for an event recorded in this call
  virtual expected<void> record(int event) = 0;  // after the last step of the current lane
  // Returns to lane 0, which waits for all others. Must end every call that began, even a failed one.
  virtual expected<void> join() = 0;
};

}  // namespace cudal1
