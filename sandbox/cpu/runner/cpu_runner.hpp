// The runner's role in a worker of `cpu`: it holds one program, native code of a variant or the task's own.
#pragma once

#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

// The rest of a process forked by the zygote; its exit code (zygote.hpp).
int run_cpu_runner(const worker_settings& settings, int channel, int control, int arena, int zygote);

}  // namespace cudal1
