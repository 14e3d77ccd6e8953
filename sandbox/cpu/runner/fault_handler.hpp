// Handles a fault of a runner's native code: records what happened and where in the control block, and exits.
#pragma once

#include <span>
#include <vector>

#include "config/base/error.hpp"
#include "sandbox/isolation/control_block.hpp"
#include "sandbox/isolation/shared_memory.hpp"

namespace cudal1 {

class interpreter;
struct tensor_view;

// What the handler reads. It must live until the process ends.
struct fault_context {
  control_block* control = nullptr;
  const interpreter* running = nullptr;
  const mapped_tensors* inputs = nullptr;
  const mapped_tensors* weights = nullptr;
  const std::vector<tensor_view>* constants = nullptr;  // what setup made
  const std::byte* arena = nullptr;
  int64_t arena_bytes = 0;
};

// For this thread, on that stack or if there is none on one of its own, and, without an alternate stack, for those made
// later. With SIGXCPU the referee asks which step an overdue call is in.
expected<void> install_fault_handler(const fault_context* context, std::span<std::byte> on);

}  // namespace cudal1
