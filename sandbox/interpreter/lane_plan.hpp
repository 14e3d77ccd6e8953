// Which steps of a program may overlap: a lane for each step, and the steps of other lanes that it must wait for. No
// LibTorch and no CUDA: a lane_driver makes streams and events of it.
#pragma once

#include <vector>

#include "sandbox/program/check.hpp"

namespace cudal1 {

inline constexpr int no_lane = -1;
inline constexpr int no_event = -1;

struct laned_step {
  int lane = no_lane;      // no_lane: it puts no work on the device (a view), and runs wherever the call is
  std::vector<int> waits;  // events of steps in other lanes, which must be over before it begins
  int event = no_event;    // to be recorded behind it, where another lane waits for it
};

struct lane_plan {
  std::vector<laned_step> steps;  // one for each of the program's; setup is not in it, and stays on one stream
  int lanes = 1;                  // that have work
  int events = 0;
};

// Greedy list scheduling in the program's order, on at most `how.lanes` lanes: a step goes on in the lane of the last
// operand made, where nothing came behind that; else on an idle or a new lane. The order within lanes and the waits
// together keep every pair of steps in order of which one writes what the other reads or writes, views included.
// Memory must not be used again within the call: nothing here says when a value's last reader is over.
lane_plan plan_lanes(const checked_program& p);

// Runs a plan's lanes. One thread.
class lane_driver {
 public:
  virtual ~lane_driver() = default;
  // Once, before the first call: what they will need.
  virtual expected<void> prepare(int lanes, int events) = 0;

  // A call begins: lane 0 is where the caller's work goes, and the other lanes begin behind what was enqueued there.
  // Until join(), memory that is released is not handed out again: another lane may still use it.
  virtual expected<void> begin() = 0;
  virtual expected<void> enter(int lane) = 0;    // what is enqueued from now on belongs to that lane
  virtual expected<void> wait(int event) = 0;    // the current lane waits for a step recorded in this call
  virtual expected<void> record(int event) = 0;  // behind the last step of the current lane
  // Back to lane 0, which waits for all others. Ends every call that has begun, a failed one too.
  virtual expected<void> join() = 0;
};

}  // namespace cudal1
