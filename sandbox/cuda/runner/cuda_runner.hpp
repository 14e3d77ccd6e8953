// The runner of a GPU: calls the task's own program and one variant at the referee's request. See gpu_messages.hpp.
#pragma once

#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

// Runs until the process ends; returns its exit code. `channel`: to the referee.
int run_cuda_runner(const worker_settings& settings, int channel, int zygote);

}  // namespace cudal1
