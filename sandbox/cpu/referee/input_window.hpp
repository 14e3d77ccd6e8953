// The memory in which a runner finds the inputs of its calls: mapped by it before the call, and written by the referee
// while the runner is stopped, right before the clock starts. What a runner does before its call, it does without them.
#pragma once

#include "sandbox/isolation/shared_memory.hpp"

namespace cudal1 {

class input_window {
 public:
  // Makes room for inputs of so many bytes (tensor_layout::file_bytes), all zero. What a runner before was given must
  // not be seen by the next one, which may be timed on the same draw.
  expected<void> clear(int64_t bytes);
  // Copies a draw's file of that size.
  expected<void> put(int draw);
  // Only the referee can write to it.
  int file() const { return file_.get(); }

 private:
  unique_fd file_;
  mapping memory_;
};

}  // namespace cudal1
