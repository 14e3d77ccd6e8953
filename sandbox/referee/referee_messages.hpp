// What a session and its referee say to each other: a record a frame.
#pragma once

#include <cstdint>
#include <string>

#include <boost/describe.hpp>

#include "sandbox/evaluation.hpp"

namespace cudal1 {

// open_task: descriptors of the task's content_files(), in that order.
struct open_task_request {
  std::string task;  // canonical_text
  bool renew = false;
};
BOOST_DESCRIBE_STRUCT(open_task_request, (), (task, renew))

// The variant: its program's canonical text; `key` names program and object together.
struct variant_text {
  std::string program, key;
};
BOOST_DESCRIBE_STRUCT(variant_text, (), (program, key))

// A runner's descriptors, as the referee gets them: {channel, control block, arena, pidfd}.
inline constexpr int descriptors_of_runner = 4;

// attach: no record; descriptors {channel, pidfd} of the runner of a GPU, which serves every request from then on. The
// other requests to that referee carry {object} alone.

// check: descriptors of one runner, then {object}.
struct check_request {
  variant_text variant;
  check_plan plan;
};
BOOST_DESCRIBE_STRUCT(check_request, (), (variant, plan))

// check_pool: the same for those draws of the timing pool that this variant has not been checked on; with `only_count`
// it just asks how many there are, and needs no runner.
struct check_pool_request {
  variant_text variant;
  timing_plan plan;
  tolerance close, close_loose;
  bool only_count = false;
};
BOOST_DESCRIBE_STRUCT(check_pool_request, (), (variant, plan, close, close_loose, only_count))

// forget_tasks: no record. The memory of all tasks' draws and expected outputs goes back; a task must be opened again.

// time_fork: descriptors of the reference's runner, of the variant's, then {object}.
struct time_fork_request {
  variant_text variant;
  timing_plan plan;
  int fork = 0;  // of its samples
};
BOOST_DESCRIBE_STRUCT(time_fork_request, (), (variant, plan, fork))

// done: of all of them.
struct referee_reply {
  check_report check;
  timing_report timing;
  int unchecked = 0;                   // check_pool: draws left that this variant has not been checked on
  bool variant_runner_lost = false;    // it ended without a record of its fault: how it ended must be asked elsewhere
  bool reference_runner_lost = false;  // this one must not happen: infrastructure
  bool runner_ended = false;           // GPU: attach another one before the next request that runs something
};
BOOST_DESCRIBE_STRUCT(referee_reply, (),
                      (check, timing, unchecked, variant_runner_lost, reference_runner_lost, runner_ended))

}  // namespace cudal1
