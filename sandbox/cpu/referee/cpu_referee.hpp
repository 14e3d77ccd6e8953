// The referee's role in a worker of `cpu`.
#pragma once

#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

// Runs the referee in a process that the zygote forked. Returns the process's exit code (zygote.hpp).
int run_cpu_referee(const worker_settings& settings, int socket, int zygote);

}  // namespace cudal1
