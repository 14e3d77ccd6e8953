// The messages between a session and its zygote: one record per frame.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/isolation/confine.hpp"

namespace cudal1 {

// Settings of this device's processes; passed on the zygote's command line (to_text) and inherited by its children.
struct worker_settings {
  int threads = 1;
  int timing_core = 0;
  std::vector<int> other_cores;  // on `cpu` for the waiting referee; on a GPU further cores for timed calls
  int64_t flush_bytes = 0;
  bool allow_weak_confinement = false;
  int cuda_device = -1;      // -1: the CPU; else the GPU of the referee and the runner
  int64_t memory_bytes = 0;  // session_options::memory_bytes
};
BOOST_DESCRIBE_STRUCT(worker_settings, (),
                      (threads, timing_core, other_cores, flush_bytes, allow_weak_confinement, cuda_device,
                       memory_bytes))

// report: the zygote is ready to fork.
struct zygote_report {
  std::string libraries;  // with versions, for the environment
  std::vector<confinement_item> confinement;
  double warm_ms = 0;
};
BOOST_DESCRIBE_STRUCT(zygote_report, (), (libraries, confinement, warm_ms))

// spawn: with descriptors {socket to the session} for a referee, {channel to the referee, control block, arena} for a
// runner; on a GPU only {channel}.
struct spawn_request {
  std::string role;  // "referee", "runner"
};
BOOST_DESCRIBE_STRUCT(spawn_request, (), (role))
// spawned: with descriptor {pidfd}.
struct spawn_reply {
  int pid = 0;
};
BOOST_DESCRIBE_STRUCT(spawn_reply, (), (pid))
// exited: a child has ended and was reaped.
struct exit_notice {
  int pid = 0;
  int signal = 0;  // that ended it, or 0
  int code = 0;    // its exit code
};
BOOST_DESCRIBE_STRUCT(exit_notice, (), (pid, signal, code))

}  // namespace cudal1
