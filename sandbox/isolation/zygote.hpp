// The zygote of a device's worker processes: loads their libraries once and forks the other roles in milliseconds.
#pragma once

#include <string>

#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

// The roles of a zygote's children, for one kind of device. Children get their descriptors as 3, 4, ...: a referee its
// socket; a runner those of spawn_request.
struct zygote_roles {
  std::string libraries;        // with versions, for the environment
  void (*warm_up)() = nullptr;  // starts no thread and does not initialise devices
  int (*referee)(const worker_settings&, int socket, int zygote) = nullptr;
  int (*runner)(const worker_settings&, const int* descriptors, int zygote) = nullptr;
  std::size_t runner_descriptors = 0;
  bool keeps_constants = false;  // over forks (library_constants.hpp)
};

// The main function of a zygote. Descriptor 3 is the socket to the session. Returns the exit code.
inline constexpr int zygote_socket = 3;
int run_zygote(const worker_settings& settings, const zygote_roles& roles);

// Exit codes of a zygote, referee or runner; a fault handler uses the last.
inline constexpr int exit_orderly = 0, exit_broken = 66, exit_confinement = 67, exit_fault = 70;

}  // namespace cudal1
