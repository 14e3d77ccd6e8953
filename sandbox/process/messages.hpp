// What the frames carry: one record each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation.hpp"
#include "sandbox/process/confine.hpp"

namespace cudal1 {

// ---- session and zygote ---------------------------------------------------------------------------------------------

// How this device's processes work; on the zygote's command line (to_text), and inherited from there.
struct worker_settings {
  int threads = 1;
  int timing_core = 0;
  std::vector<int> other_cores;  // where the referee of `cpu` waits; on a GPU where calls may be timed as well
  int64_t flush_bytes = 0;
  bool allow_weak_confinement = false;
  int cuda_device = -1;  // -1: the CPU; else referee and runner are those of that GPU
};
BOOST_DESCRIBE_STRUCT(worker_settings, (),
                      (threads, timing_core, other_cores, flush_bytes, allow_weak_confinement, cuda_device))

// report: the zygote is ready to fork.
struct zygote_report {
  std::string libraries;  // with versions, for the environment
  std::vector<confinement_item> confinement;
  double warm_ms = 0;
};
BOOST_DESCRIBE_STRUCT(zygote_report, (), (libraries, confinement, warm_ms))

// spawn: descriptors {socket to the session} for a referee, {channel to the referee, control block, arena} for a
// runner; on a GPU {channel} alone.
struct spawn_request {
  std::string role;  // "referee", "runner"
};
BOOST_DESCRIBE_STRUCT(spawn_request, (), (role))
// spawned: descriptor {pidfd}.
struct spawn_reply {
  int pid = 0;
};
BOOST_DESCRIBE_STRUCT(spawn_reply, (), (pid))
// exited: a child has been reaped.
struct exit_notice {
  int pid = 0;
  int signal = 0;  // that ended it, or 0
  int code = 0;    // its exit code
};
BOOST_DESCRIBE_STRUCT(exit_notice, (), (pid, signal, code))

// ---- session and referee --------------------------------------------------------------------------------------------

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

// forget_tasks: no record. The memory of all tasks' draws and answers goes back; a task must be opened again.

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

// ---- referee and runner ---------------------------------------------------------------------------------------------

// load: descriptor {object}, or none for a program without kernels.
struct load_request {
  std::string program;
  int64_t arena_bytes = 0;
  uint64_t seed = 0;
};
BOOST_DESCRIBE_STRUCT(load_request, (), (program, arena_bytes, seed))

// weights and prepare: descriptor {draw's file}. `shift_pages` moves the addresses it is mapped at.
struct draw_message {
  uint64_t seed = 0;
  int64_t shift_pages = 0;
};
BOOST_DESCRIBE_STRUCT(draw_message, (), (seed, shift_pages))

// done: of a runner. Times in milliseconds, for reports only.
struct runner_reply {
  double setup_ms = 0;
  bool guards_intact = true;
  std::string guard_problem = {};
};
BOOST_DESCRIBE_STRUCT(runner_reply, (), (setup_ms, guards_intact, guard_problem))

}  // namespace cudal1
