// The referee's role in a worker of `cpu`.
#pragma once

#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

// The rest of a process forked by the zygote; its exit code (zygote.hpp).
int run_cpu_referee(const worker_settings& settings, int socket, int zygote);

}  // namespace cudal1
