// The three roles of cudal1-worker. Each function is the rest of its process's life; the result is its exit code.
#pragma once

#include <string>

#include "sandbox/process/messages.hpp"

namespace cudal1 {

// Descriptor 3 is the socket to the session.
inline constexpr int zygote_socket = 3;
int run_zygote(const worker_settings& settings);

// Forked by the zygote.
int run_referee(const worker_settings& settings, int socket, int zygote);
int run_runner(const worker_settings& settings, int channel, int control, int arena, int zygote);

// Exit codes of a runner; a fault handler uses the last.
inline constexpr int exit_orderly = 0, exit_broken = 66, exit_confinement = 67, exit_fault = 70;

}  // namespace cudal1
