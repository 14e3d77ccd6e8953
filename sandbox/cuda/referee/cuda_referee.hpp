// The referee's role in a worker of a GPU.
#pragma once

#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

// Runs the referee in a process that the zygote forked, on settings.cuda_device. Returns the process's exit code
// (zygote.hpp).
int run_cuda_referee(const worker_settings& settings, int socket, int zygote);

}  // namespace cudal1
