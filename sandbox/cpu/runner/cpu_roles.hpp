// The roles of cudal1-worker on `cpu`. Each function is the rest of its process's life; the result is its exit code.
#pragma once

#include "sandbox/isolation/zygote.hpp"

namespace cudal1 {

zygote_roles cpu_roles();

// Forked by the zygote.
int run_referee(const worker_settings& settings, int socket, int zygote);
int run_runner(const worker_settings& settings, int channel, int control, int arena, int zygote);

}  // namespace cudal1
