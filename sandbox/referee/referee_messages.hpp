// The messages between a session and its referee: one record per frame.
#pragma once

#include <cstdint>
#include <string>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// open_task: with descriptors of the task's content_files(), in that order.
struct open_task_request {
  std::string task;  // canonical_text
  bool renew = false;
};
BOOST_DESCRIBE_STRUCT(open_task_request, (), (task, renew))

// The variant: its program's canonical text; `key` identifies program and object together.
struct variant_text {
  std::string program, key;
};
BOOST_DESCRIBE_STRUCT(variant_text, (), (program, key))

// A runner's descriptors, as the referee gets them: {channel, control block, arena, pidfd}.
inline constexpr int descriptors_of_runner = 4;

// attach: no record; with descriptors {channel, pidfd} of the runner of a GPU, which serves all following requests. The
// other requests to that referee carry only {object}.

// check: with descriptors of one runner, then {object}.
struct check_request {
  variant_text variant;
  check_plan plan;
};
BOOST_DESCRIBE_STRUCT(check_request, (), (variant, plan))

// check_pool: the same for the draws of the timing pool on which this variant has not been checked; with `only_count`
// the reply has only their number, and no runner is needed.
struct check_pool_request {
  variant_text variant;
  timing_plan plan;
  tolerance close, close_loose;
  bool only_count = false;
  bool eager_alone = false, sized = false;  // as in check_plan
};
BOOST_DESCRIBE_STRUCT(check_pool_request, (), (variant, plan, close, close_loose, only_count, eager_alone, sized))

// forget_tasks: no record. Frees the memory of all tasks' draws and expected outputs; a task must be opened again.

// time_fork: with descriptors of the reference's runner, of the variant's, then {object}.
struct time_fork_request {
  variant_text variant;
  timing_plan plan;
  int fork = 0;  // of its samples
};
BOOST_DESCRIBE_STRUCT(time_fork_request, (), (variant, plan, fork))

// done: the reply to all of them.
struct referee_reply {
  check_report check;
  timing_report timing;
  int unchecked = 0;                   // check_pool: remaining draws on which this variant has not been checked
  bool variant_runner_lost = false;    // it ended without a record of its fault; the session finds out how it ended
  bool reference_runner_lost = false;  // an infrastructure error
  double reference_ms = 0;             // open_task: of a call of the task's own program
  bool runner_ended = false;           // GPU: attach another one before the next request that needs a runner
};
BOOST_DESCRIBE_STRUCT(referee_reply, (),
                      (check, timing, unchecked, variant_runner_lost, reference_runner_lost, reference_ms,
                       runner_ended))

}  // namespace cudal1
