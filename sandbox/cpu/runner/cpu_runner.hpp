// The runner's role in a worker of `cpu`: it holds one program, a variant or the task's own.
#pragma once

#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

// Runs the runner in a process that the zygote forked. Returns the process's exit code (zygote.hpp).
int run_cpu_runner(const worker_settings& settings, int channel, int control, int arena, int zygote);

}  // namespace cudal1
