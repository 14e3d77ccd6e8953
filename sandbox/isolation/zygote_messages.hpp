// What a session and its zygote say to each other: a record a frame.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/isolation/confine.hpp"

namespace cudal1 {

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

}  // namespace cudal1
