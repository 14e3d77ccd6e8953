// What a runner does when its native code goes wrong: say what and where in the control block, and end.
#pragma once

#include "config/base/error.hpp"
#include "sandbox/isolation/control_block.hpp"
#include "sandbox/isolation/shared_memory.hpp"

namespace cudal1 {

class interpreter;

// What the handler reads. It must outlive the process's last instruction, so a runner keeps it in static memory.
struct fault_context {
  control_block* control = nullptr;
  const interpreter* running = nullptr;
  const mapped_tensors* inputs = nullptr;
  const mapped_tensors* weights = nullptr;
  const std::byte* arena = nullptr;
  int64_t arena_bytes = 0;
};

// For this thread and, without an alternate stack, for those made later. SIGXCPU is the referee's question where an
// overdue call stands.
expected<void> install_fault_handler(const fault_context* context);

}  // namespace cudal1
