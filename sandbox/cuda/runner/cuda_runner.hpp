// The runner of a GPU: the task's own program and one variant, called when the referee says so. See messages.hpp.
#pragma once

#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

// The rest of the process's life; the result is its exit code. `channel`: to the referee.
int run_cuda_runner(const worker_settings& settings, int channel, int zygote);

}  // namespace cudal1
