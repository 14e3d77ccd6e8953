// The zygote of a device's worker processes: loads their libraries once and forks the other roles in milliseconds.
#pragma once

#include <string>

#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

// What a zygote's children are, on one kind of device. Descriptors are handed down as 3, 4, ...: for a referee its
// socket; for a runner those that spawn_request names.
struct zygote_roles {
  std::string libraries;        // with versions, for the environment
  void (*warm_up)() = nullptr;  // one thread, no device touched
  int (*referee)(const worker_settings&, int socket, int zygote) = nullptr;
  int (*runner)(const worker_settings&, const int* descriptors, int zygote) = nullptr;
  std::size_t runner_descriptors = 0;
};

// Descriptor 3 is the socket to the session. The rest of the process's life; the result is its exit code.
inline constexpr int zygote_socket = 3;
int run_zygote(const worker_settings& settings, const zygote_roles& roles);

// Exit codes of a runner; a fault handler uses the last.
inline constexpr int exit_orderly = 0, exit_broken = 66, exit_confinement = 67, exit_fault = 70;

}  // namespace cudal1
