// The referee's role in a worker of a GPU.
#pragma once

#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

// The rest of a process forked by the zygote; its exit code (zygote.hpp). Uses settings.cuda_device.
int run_cuda_referee(const worker_settings& settings, int socket, int zygote);

}  // namespace cudal1
